"""Recorded schedules of real engines: replay, comparison, capture."""
