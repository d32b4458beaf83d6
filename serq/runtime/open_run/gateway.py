"""The statement `request` in an open run."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from math import inf, nan
from typing import Final

from serq.runtime.clock import Clock
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.request_records import FINISH_REASONS, RequestTable, add_all
from serq.runtime.serving.gateway import RequestTerms, hash_ids_of
from serq.runtime.serving.numbers import asked_lengths, prefix_of, whole
from serq.runtime.session import Session

_REASONS: Final = {name: number for number, name in enumerate(FINISH_REASONS)}
_ROWS_AT_ONCE: Final = 1024


class OpenGateway:
    """Sends requests, numbered in the order of sending, and writes them down when they have ended."""

    def __init__(self, clock: Clock, table: RequestTable, drains: bool) -> None:
        """``drains``: the run ends with the last of the arrivals that were asked for."""
        self._clock = clock
        self._drains = drains
        self._table = table
        self._sent: list[OpenRequest] = []
        """Those that are not in the table."""
        self._count = 0
        self._over = 0
        """So many at the front have ended."""

    def send(
        self,
        session_number: int,
        turn: int,
        now: float,
        engine: OpenEngine,
        over: Callable[[float, OpenRequest], object],
        handle: str,
        kept: object,
        new_tokens: float,
        output_tokens: float,
        *,
        label: float = nan,
        priority: float = 0.0,
        max_tokens: float | None = None,
        min_tokens: float = 0.0,
        job: float = nan,
        prefix: tuple[float, float] | None = None,
        hash_ids: array[int] | None = None,
        follows: OpenRequest | None = None,
    ) -> OpenRequest:
        """Send a request, which waits now, or is rejected. When it has ended, its session calls ``over``.

        ``kept`` are the attributes of the session that somebody reads later. The prompt continues that of
        ``follows``, and its outputs.
        """
        prompt = whole(new_tokens, "prompt tokens", lowest=1)
        if follows is not None:
            prompt += follows.num_prompt_tokens + follows.num_output_tokens
        room = engine.max_model_len - prompt
        if max_tokens is None and not min_tokens:
            outputs, stops, overruns = min(whole(output_tokens, "output tokens", lowest=1), room), False, 0
        else:
            outputs, stops, overruns = self._end(
                engine, room, asked_lengths(output_tokens, min_tokens, max_tokens)
            )
        number = self._count
        self._count = number + 1
        request = OpenRequest(
            number, session_number, turn, over, handle, kept, engine.number, now, prompt, outputs, stops,
            overruns, label, job,
        )  # fmt: skip
        if priority:
            request.priority = whole(priority, "priority", lowest=-inf)
        self._sent.append(request)
        if prompt >= engine.max_model_len:
            request.reason, request.end_time = "rejected", now
            return request
        text = None if prefix is None else prefix_of(prefix)
        if engine.cached is not None:
            if follows is None:
                request.chain = engine.cached.prompts.chain(prompt, text, hash_ids)
            else:
                known = follows.num_prompt_tokens + follows.num_output_tokens
                request.chain = engine.cached.prompts.continued(follows.chain, known)
        if prompt > engine.usable * engine.size:
            raise LeaveOpenRun(ClockReason.ERROR)
        engine.coming.append(request)
        return request

    def send_of(
        self, session: Session, engine: OpenEngine, terms: RequestTerms, follows: OpenRequest | None
    ) -> OpenRequest:
        """Send a request that ``session`` waits for; its prompt continues ``follows``, which has ended."""
        return self.send(
            session.number,
            session.turn,
            self._clock.now,
            engine,
            _is_awaited,
            terms.handle,
            session,
            terms.new_tokens,
            terms.output_tokens,
            label=terms.label,
            priority=terms.priority,
            max_tokens=terms.max_tokens,
            min_tokens=terms.min_tokens,
            job=terms.job,
            prefix=terms.prefix,
            hash_ids=hash_ids_of(session.trace, session.row, session.turn) if terms.traced else None,
            follows=follows,
        )

    def _end(
        self, engine: OpenEngine, room: int, lengths: tuple[int, int, int | None]
    ) -> tuple[int, bool, int]:
        """(outputs that end it, whether the model stops there, shares beyond that) (S-099, S-103b)."""
        lowest, length, asked = lengths
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
        sent, over = self._sent, self._over
        while over < len(sent) and sent[over].reason:
            over += 1
        if over >= _ROWS_AT_ONCE:
            self._write(sent[:over])
            del sent[:over]
            over = 0
        self._over = over

    def write_all(self) -> None:
        """Write down all as they stand."""
        self._write(self._sent)
        self._sent, self._over = [], 0

    def _write(self, requests: list[OpenRequest]) -> None:
        table = self._table
        outputs = [r.num_output_tokens for r in requests]
        add_all(table.session, [r.session_number for r in requests])
        add_all(table.turn, [r.turn for r in requests])
        table.handle += [r.handle for r in requests]
        add_all(table.engine, [r.engine for r in requests])
        add_all(table.label, [r.label for r in requests])
        add_all(table.sent, [r.sent_time for r in requests])
        add_all(table.queued, [r.queued_time for r in requests])
        add_all(table.scheduled, [r.scheduled_time for r in requests])
        add_all(table.first_token, [r.first_time for r in requests])
        add_all(table.last_token, [r.last_time for r in requests])
        add_all(table.finish, [r.end_time for r in requests])
        add_all(table.finish_reason, [_REASONS[r.reason] for r in requests])
        add_all(table.prompt_tokens, [r.num_prompt_tokens for r in requests])
        add_all(table.cached_tokens, [r.cached for r in requests])
        add_all(table.fetched_tokens, [0] * len(requests))
        add_all(table.generated, outputs)
        add_all(table.deliveries, outputs)
        add_all(table.preemptions, [r.num_preemptions for r in requests])
        add_all(table.first_step, [r.first_step for r in requests])
        add_all(table.last_step, [r.last_step for r in requests])


def _is_awaited(now: float, request: OpenRequest) -> None:
    """A session on the clock waits for ``request``: it is woken, not called."""
    raise AssertionError(f"request {request.row} was to be awaited")
