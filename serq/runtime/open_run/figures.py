"""The figures of a stage in an open run: what :class:`serq.runtime.stage.Stage` adds up event by event."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.open_run.request import OpenRequest
from serq.runtime.stage import Stage


class StageFigures:
    """Requests present, and sums over those that have ended since warm-up (R-B-010, R-B-111)."""

    def __init__(self) -> None:
        self.number = self._completed = 0
        self._since = self._present = self._busy = self._wait = self._service = 0.0

    def _account(self, now: float) -> None:
        elapsed = now - self._since
        self._present += self.number * elapsed
        self._busy += elapsed if self.number else 0.0
        self._since = now

    def come(self, requests: Sequence[OpenRequest]) -> None:
        """Requests arrive, one after the other."""
        number, since, present, busy = self.number, self._since, self._present, self._busy
        for request in requests:
            elapsed = request.sent_time - since
            since = request.sent_time
            if number:
                present += number * elapsed
                busy += elapsed
            number += 1
        self.number, self._since, self._present, self._busy = number, since, present, busy

    def go(self, now: float, ended: Sequence[OpenRequest]) -> None:
        """Requests have ended."""
        self._account(now)
        self.number -= len(ended)
        self._completed += len(ended)
        for request in ended:
            start = request.scheduled_time
            self._wait += start - request.sent_time
            self._service += now - start

    def reset(self, now: float) -> None:
        """Forget what warm-up measured."""
        self._completed = 0
        self._since = now
        self._present = self._busy = self._wait = self._service = 0.0

    def close(self, stage: Stage) -> None:
        """Hand the figures to ``stage``."""
        stage.stand(
            self.number,
            since=self._since,
            present=self._present,
            busy=self._busy,
            completed=self._completed,
            wait=self._wait,
            service=self._service,
        )
