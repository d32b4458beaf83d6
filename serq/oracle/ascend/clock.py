"""The clock of a replay: whole microseconds that a recording sets."""

from __future__ import annotations


class ReplayClock:
    """Time in microseconds; what runs under it reads seconds, as the recorded code did."""

    def __init__(self) -> None:
        self.us = 0

    def seconds(self) -> float:
        """The time in seconds."""
        return self.us / 1e6

    def set(self, us: int) -> None:
        """Set the time. Raises ValueError when it would run backwards."""
        if us < self.us:
            raise ValueError(f"the recording goes back from {self.us} to {us} microseconds")
        self.us = us

    def advance(self, us: int) -> None:
        """Set the time unless it is later already."""
        self.us = max(self.us, us)
