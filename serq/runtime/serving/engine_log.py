"""What an engine writes down while it runs: rows of requests and steps, and sums for its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any

from serq.runtime.request_records import FINISH_REASONS, EngineRow, Option, RequestTable, StepTable
from serq.runtime.serving.hybrid_memory import HybridMemory
from serq.runtime.serving.queue_log import QueueLog
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.step_rows import ALONE, StepRows
from serq.runtime.vllm.block_pool import BlockPool
from serq.runtime.vllm.request import Request
from serq.runtime.vllm.scheduler_output import SchedulerOutput

if TYPE_CHECKING:
    from serq.runtime.serving.layouts import StepLayoutEngine


@dataclass(slots=True)
class StepInFlight:
    """A step between its forming and its end, and how the engine stood when it was formed."""

    step: SchedulerOutput
    formed: float
    start: float
    end: float
    prefill_tokens: int
    running: int
    waiting: int
    free_blocks: int
    scheduled: int
    round_number: int = ALONE
    """In which round of its data-parallel group it runs."""


class EngineLog:
    """The notes of one engine. ``number`` is its place among the engines of the run."""

    def __init__(
        self,
        name: str,
        member: int,
        number: int,
        requests: RequestTable,
        pool: BlockPool,
        layout: StepLayoutEngine | None = None,
        memory: HybridMemory | None = None,
    ) -> None:
        """``layout`` is given where the rows of every step are kept, ``memory`` where a model has states."""
        self.name = name
        self.member = member
        self._number = number
        self._requests = requests
        self._pool = pool
        self._memory = memory
        self.steps = StepTable()
        self.queue = QueueLog()
        self._layout = layout
        self.rows = None if layout is None else StepRows()
        """The rows of every step, where they are kept."""
        self._since = self._began = 0.0
        self._first_step = 0
        self._taken_tokens = 0
        """Tokens since warm-up of steps that were taken away."""
        self._taken_until = -inf
        """When the last step ended that was taken away."""
        self._block_time = 0.0
        self._prompt_tokens = self._cached_tokens = 0
        self._preemptions = 0

    # --- requests ---------------------------------------------------------------------------------------

    def opened(self, sent: SentRequest) -> None:
        """A request was sent."""
        session = sent.session
        sent.row = self._requests.open(
            session.number, session.turn, sent.handle, self._number, sent.label, sent.sent_time,
            sent.request.num_prompt_tokens,
        )  # fmt: skip

    def admitted(self, sent: SentRequest) -> None:
        """A request was admitted for the first time."""
        requests = self._requests
        row = sent.row - requests.handed_over
        requests.queued[row] = sent.queued_time
        requests.scheduled[row] = sent.scheduled_time
        requests.cached_tokens[row] = sent.cached or 0
        requests.fetched_tokens[row] = sent.fetched
        self.first_admitted(sent.request.num_prompt_tokens, sent.cached or 0)

    def first_admitted(self, prompt_tokens: int, cached_tokens: int) -> None:
        """A prompt was admitted for the first time, and so much of it was cached."""
        self._prompt_tokens += prompt_tokens
        self._cached_tokens += cached_tokens

    def first_token(self, sent: SentRequest) -> None:
        """The step that was noted last brought the first token of a request."""
        requests = self._requests
        row = sent.row - requests.handed_over
        requests.first_token[row] = sent.first_time
        requests.first_step[row] = self.steps.count - 1

    def closed(self, sent: SentRequest, now: float) -> None:
        """The engine has let go of a request at ``now``."""
        self.progressed(sent)
        self.queue.over(sent.row, nan)
        self._ended(sent, now)

    def progressed(self, sent: SentRequest) -> None:
        """How far a request has come."""
        requests, request = self._requests, sent.request
        row = sent.row - requests.handed_over
        requests.queued[row] = sent.queued_time
        requests.last_token[row] = sent.last_time
        requests.generated[row] = request.num_output_tokens
        requests.deliveries[row] = sent.deliveries
        requests.preemptions[row] = request.num_preemptions
        if sent.deliveries and sent.last_time > self._taken_until:
            requests.last_step[row] = self._step_that_ended_at(sent.last_time)

    def rejected(self, sent: SentRequest) -> None:
        """A request was turned away when it was sent."""
        self.opened(sent)
        self._ended(sent, sent.end_time)

    def _ended(self, sent: SentRequest, time: float) -> None:
        requests = self._requests
        row = sent.row - requests.handed_over
        requests.finish[row] = time
        requests.finish_reason[row] = FINISH_REASONS.index(sent.reason)

    def _step_that_ended_at(self, time: float) -> int:
        """The place of the latest step that ended at ``time``; an abort may come some steps later."""
        ends = self.steps.end
        place = len(ends) - 1
        while ends[place] > time:
            place -= 1
        return self.steps.handed_over + place

    # --- steps ------------------------------------------------------------------------------------------

    def step_ended(self, done: StepInFlight) -> None:
        """A step was processed; one without tokens leaves no row."""
        step = done.step
        preempted = len(step.preempted_req_ids)
        self._preemptions += preempted
        if not step.total_num_scheduled_tokens:
            return
        table = self.steps
        table.formed.append(done.formed)
        table.start.append(done.start)
        table.end.append(done.end)
        table.tokens.append(step.total_num_scheduled_tokens)
        table.scheduled.append(done.scheduled)
        table.prefill_tokens.append(done.prefill_tokens)
        table.running.append(done.running)
        table.waiting.append(done.waiting)
        table.free_blocks.append(done.free_blocks)
        table.preempted.append(preempted)
        if self.rows is not None:
            self.rows.add(step, done.round_number)

    def decodes_ended(
        self,
        formed: Sequence[float],
        starts: Sequence[float],
        ends: Sequence[float],
        free_blocks: Sequence[int],
        count: int,
        running: int,
        waiting: int,
    ) -> None:
        """Steps of ``count`` decodes and nothing else were processed."""
        table, steps = self.steps, len(ends)
        table.formed.extend(formed)
        table.start.extend(starts)
        table.end.extend(ends)
        table.free_blocks.extend(free_blocks)
        counts = [count] * steps
        nothing = [0] * steps
        table.tokens.extend(counts)
        table.scheduled.extend(counts)
        table.prefill_tokens.extend(nothing)
        table.preempted.extend(nothing)
        table.running.extend([running] * steps)
        table.waiting.extend([waiting] * steps)

    def account_blocks_over(self, instants: Sequence[float], free_blocks: Sequence[int]) -> None:
        """The same at every one of ``instants``, up to which so many blocks were free."""
        usable = self._pool.num_gpu_blocks - 1
        since, total = self._since, self._block_time
        for now, free in zip(instants, free_blocks, strict=True):
            total += (usable - free) * (now - since)
            since = now
        self._since, self._block_time = since, total

    def take_steps(self, rows: int) -> dict[str, Sequence[Any]]:
        """The first ``rows`` steps in memory by column; the progress of open requests was written down."""
        if rows:
            self._taken_tokens += self._tokens_of(rows)
            self._taken_until = self.steps.end[rows - 1]
        return self.steps.take(rows)

    def _tokens_of(self, rows: int) -> int:
        """Tokens since warm-up of the first ``rows`` steps in memory."""
        return sum(self.steps.tokens[max(self._first_step - self.steps.handed_over, 0) : rows])

    def account_blocks(self, now: float) -> None:
        """Add the time since the last change to the integral of blocks in use; asked before every change."""
        if now != self._since:
            in_use = self._pool.num_gpu_blocks - 1 - self._pool.num_free_blocks
            self._block_time += in_use * (now - self._since)
            if self._memory is not None:
                self._memory.account(now - self._since)
            self._since = now

    # --- figures ----------------------------------------------------------------------------------------

    def settle(self, now: float, block_time: float, preemptions: int) -> None:
        """What somebody else has counted since warm-up, up to ``now``."""
        self._since, self._block_time, self._preemptions = now, block_time, preemptions

    def reset(self, now: float) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self._since = self._began = now
        self._block_time = 0.0
        if self._memory is not None:
            self._memory.reset()
        self._first_step = self.steps.count
        self._taken_tokens = 0
        self._prompt_tokens = self._cached_tokens = 0
        self._preemptions = 0
        self.queue.reset()

    @property
    def tokens(self) -> int:
        """Tokens computed since warm-up."""
        return self._taken_tokens + self._tokens_of(len(self.steps))

    def row(self, options: tuple[Option, ...], now: float, here: Iterable[Request] = ()) -> EngineRow:
        """The figures since warm-up; requests that are ``here`` may be waiting."""
        self.account_blocks(now)
        block_span = (self._pool.num_gpu_blocks - 1) * (now - self._began)
        return EngineRow(
            name=self.name,
            member=self.member,
            options=options,
            steps=self.steps.count - self._first_step,
            tokens=self.tokens,
            preemptions=self._preemptions,
            prefix_hit_rate=self._cached_tokens / self._prompt_tokens if self._prompt_tokens else nan,
            mean_kv_usage=self._block_time / block_span if block_span > 0.0 else nan,
            table=self.steps,
            rows=self.rows,
            memory=None if self._memory is None else self._memory.row(),
            layout=self._layout,
            queue=self.queue.all_stays(here),
            victims=self.queue.all_preemptions(),
        )
