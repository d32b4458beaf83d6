"""Measuring executors: they run the operators of a step, time them, and keep what they measured as tables."""
