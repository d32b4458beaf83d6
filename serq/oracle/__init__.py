"""Recorded decisions of a real scheduler: read them, replay them in our model, tell where the two differ."""
