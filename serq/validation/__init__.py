"""Replays of measured engine runs: what the model predicts, and how far off it is."""
