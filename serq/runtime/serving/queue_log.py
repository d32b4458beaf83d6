"""Who waits at an engine and who is preempted there, written down when a stay or a preemption is over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from typing import Final

from serq.runtime.request_records import PreemptionTable, QueueTable
from serq.runtime.serving.sent_request import SentRequest, ServedRequest
from serq.runtime.vllm.request import Request, Time
from serq.runtime.vllm.scheduler_base import Outcome, SchedulerObserver

_NOBODY: Final = -1


@dataclass(slots=True)
class OpenPreemption:
    """A preemption whose request has not got its next token yet."""

    time: float
    step: int
    request: int
    lost_tokens: int
    needed_by: int
    resumed: float = nan


class QueueLog(SchedulerObserver):
    """The notes of one engine. ``formed`` counts its steps with tokens: the number of the next one."""

    def __init__(self) -> None:
        self.stays = QueueTable()
        self.preemptions = PreemptionTable()
        self.formed = 0
        self._open: dict[int, OpenPreemption] = {}
        self.lost_tokens = 0
        """Computed tokens that preemptions since warm-up cost."""
        self.gave_way: dict[int, int] = {}
        """Request -> how often it was preempted since warm-up."""

    def reset(self) -> None:
        """Forget what warm-up measured (R-B-091); the tables keep it."""
        self.lost_tokens = 0
        self.gave_way.clear()

    def left_queue(self, request: Request, outcome: Outcome, now: Time) -> None:
        """``request`` waited in its lane until now."""
        row = row_of(request)
        step = self.formed if outcome == "admitted" else _NOBODY
        self.stays.add(row, request.lane, request.waits_since, now, outcome, step, request.num_preemptions)
        if outcome == "admitted":
            self.resumed(row, now)

    def resumed(self, row: int, now: float) -> None:
        """The request at ``row`` was admitted, perhaps again."""
        found = self._open.get(row)
        if found is not None:
            found.resumed = now

    def preempted(self, request: Request, lost_tokens: int, needed_by: Request | None, now: Time) -> None:
        """``request`` lost what was computed of it, because ``needed_by`` needed blocks."""
        by = _NOBODY if needed_by is None else row_of(needed_by)
        self.note_preemption(row_of(request), lost_tokens, by, now, self.formed)

    def note_preemption(self, row: int, lost_tokens: int, needed_by: int, now: float, step: int) -> None:
        """The request at ``row`` was preempted while ``step`` was formed, for the one at ``needed_by``."""
        self.over(row, nan)
        self.lost_tokens += lost_tokens
        self.gave_way[row] = self.gave_way.get(row, 0) + 1
        self._open[row] = OpenPreemption(now, step, row, lost_tokens, needed_by)

    def delivered(self, sent: SentRequest, now: float) -> None:
        """A token of ``sent`` came: one that runs again has recovered."""
        if sent.row in self._open and not sent.request.lane:
            self.over(sent.row, now)

    def over(self, row: int, recovered: float) -> None:
        """The request at ``row`` has recovered, has ended, or is preempted again."""
        found = self._open.pop(row, None)
        if found is not None:
            _write(self.preemptions, found, recovered)

    # --- at the end -------------------------------------------------------------------------------------

    def all_stays(self, waiting: Iterable[Request]) -> QueueTable:
        """The table with the stays of those who still wait."""
        table = self.stays.copy()
        for request in waiting:
            if request.lane:
                since, preemptions = request.waits_since, request.num_preemptions
                table.add(row_of(request), request.lane, since, nan, "", _NOBODY, preemptions)
        return table

    def all_preemptions(self) -> PreemptionTable:
        """The table with the preemptions of those who have not recovered."""
        table = self.preemptions.copy()
        for found in self._open.values():
            _write(table, found, nan)
        return table


def row_of(request: Request) -> int:
    """The place of a request among those of the run."""
    assert isinstance(request, ServedRequest)
    return request.client.row


def _write(table: PreemptionTable, found: OpenPreemption, recovered: float) -> None:
    table.time.append(found.time)
    table.step.append(found.step)
    table.request.append(found.request)
    table.lost_tokens.append(found.lost_tokens)
    table.needed_by.append(found.needed_by)
    table.resumed.append(found.resumed)
    table.recovered.append(recovered)
