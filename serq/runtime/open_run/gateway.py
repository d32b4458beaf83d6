"""The statement `request` in an open run."""

from __future__ import annotations

from array import array
from math import inf
from operator import attrgetter
from typing import Final

from serq.runtime.clock import Clock
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.open_run.stage import OpenStage
from serq.runtime.request_records import FINISH_REASONS, RequestTable
from serq.runtime.serving.gateway import RequestTerms, asked_lengths, named_parts, whole
from serq.runtime.session import Session

_COLUMNS: Final = (
    ("turn", "turn"), ("engine", "engine"), ("label", "label"), ("sent", "sent_time"),
    ("queued", "queued_time"), ("scheduled", "scheduled_time"), ("first_token", "first_time"),
    ("last_token", "last_time"), ("finish", "end_time"), ("prompt_tokens", "num_prompt_tokens"),
    ("cached_tokens", "cached"), ("generated", "num_output_tokens"), ("deliveries", "num_output_tokens"),
    ("preemptions", "num_preemptions"), ("first_step", "first_step"), ("last_step", "last_step"),
)  # fmt: skip
_ROWS_AT_ONCE: Final = 4096


class OpenGateway:
    """Sends requests, numbered in the order of sending, and writes them down when they have ended."""

    def __init__(self, clock: Clock, table: RequestTable, drains: bool) -> None:
        """``drains``: the run ends with the last of the arrivals that were asked for."""
        self._drains = drains
        self._clock = clock
        self._table = table
        self._sent: list[OpenRequest] = []
        """Those that are not in the table."""
        self._count = 0
        self.rejected = False
        """Whether the latest request was turned away, so that its session goes on at once."""

    def send(self, session: Session, stage: OpenStage, terms: RequestTerms) -> None:
        """Send a request of ``session``, which waits until it has ended: unless it is rejected at once."""
        engine = stage.engine
        prompt = whole(terms.new_tokens, "prompt tokens", lowest=1)
        outputs, stops, overruns = self._end(engine, terms, prompt)
        number = self._count
        self._count += 1
        now = self._clock.now
        request = OpenRequest(
            number, session, terms.handle, engine.number, now, prompt, outputs, stops, overruns, terms.label
        )
        request.priority = whole(terms.priority, "priority", lowest=-inf) if terms.priority else 0
        request.job = terms.job
        self._sent.append(request)
        session.requests[terms.handle] = request  # type: ignore[assignment]
        if prompt >= engine.max_model_len:
            request.reason, request.end_time, self.rejected = "rejected", now, True
            return
        if engine.cached is not None:
            request.chain = engine.cached.chain(prompt, *named_parts(session, terms))
        engine.run(now)
        engine.send(request)

    def read(self, session: Session, handle: str) -> OpenRequest:
        """The request that ``session`` sent under ``handle``."""
        request = session.requests.get(handle)
        if request is None:
            raise LeaveOpenRun(ClockReason.ERROR)
        return request  # type: ignore[return-value]

    def _end(self, engine: OpenEngine, terms: RequestTerms, prompt: int) -> tuple[int, bool, int]:
        """(outputs that end it, whether the model stops there, shares beyond that) (S-099, S-103b)."""
        lowest, length, asked = asked_lengths(terms)
        room = engine.max_model_len - prompt
        limit = room if asked is None else min(asked, room)
        if lowest > limit:
            raise LeaveOpenRun(ClockReason.STOP)
        if asked is None or length > limit:
            return min(length, limit), False, 0
        overruns = engine.depth > 1 and length < limit
        if overruns and self._drains:
            raise LeaveOpenRun(ClockReason.STOP)  # the run ends before such a share does
        return length, True, int(overruns)

    # --- what is written down -----------------------------------------------------------------------------

    def write_ended(self) -> None:
        """Write down those at the front that have ended, when they are many."""
        sent = self._sent
        if len(sent) < 2 * _ROWS_AT_ONCE:
            return
        over = next((place for place, request in enumerate(sent) if not request.reason), len(sent))
        if over >= _ROWS_AT_ONCE:
            self._write(sent[:over])
            del sent[:over]

    def write_all(self) -> None:
        """Write down all as they stand."""
        self._write(self._sent)
        self._sent = []

    def _write(self, requests: list[OpenRequest]) -> None:
        table = self._table
        for name, attribute in _COLUMNS:
            column: array[float] = getattr(table, name)
            column.extend(array(column.typecode, list(map(attrgetter(attribute), requests))))
        table.session.extend(array("q", [request.session.number for request in requests]))
        table.handle.extend([request.handle for request in requests])
        table.fetched_tokens.extend(array("q", [0]) * len(requests))
        reason = {name: number for number, name in enumerate(FINISH_REASONS)}
        table.finish_reason.extend(array("q", [reason[request.reason] for request in requests]))
