"""Gauges: time-weighted figures of live state over [warm-up, end] (design_language.md)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from serq.runtime.records import GaugeRow


class Gauge:
    """Follows one expression, whose value is that after each instant and holds until the next."""

    def __init__(self, name: str, value: Callable[[], float]) -> None:
        self._name = name
        self._read = value
        self._value = nan
        self._since = self._began = 0.0
        self._integral = 0.0
        self._smallest, self._largest = inf, -inf

    def sample(self, now: float) -> None:
        """The instant ``now`` is over: read the value that holds from here on."""
        self._account(now)
        value = self._value = self._read()
        self._smallest = min(self._smallest, value)
        self._largest = max(self._largest, value)

    def reset(self, now: float) -> None:
        """Forget what warm-up measured (R-B-091); the value after this instant is the first that counts."""
        self._since = self._began = now
        self._integral = 0.0
        self._smallest, self._largest = inf, -inf

    def row(self, now: float) -> GaugeRow:
        """The figures up to ``now``; NaN where no time has passed."""
        self._account(now)
        span = now - self._began
        mean = self._integral / span if span > 0.0 else nan
        seen = self._smallest <= self._largest
        return GaugeRow(self._name, mean, self._smallest if seen else nan, self._largest if seen else nan)

    def _account(self, now: float) -> None:
        """Add the time since the last instant to the integral."""
        if now != self._since:
            self._integral += self._value * (now - self._since)
            self._since = now
