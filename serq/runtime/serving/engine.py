"""A `vllm` stage on the clock: requests come in, steps take their time, sessions wake (S-007, S-103)."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from serq.errors import RunError
from serq.runtime.faults import checked_cost
from serq.runtime.request_records import EngineRow
from serq.runtime.serving.engine_log import EngineLog, StepInFlight
from serq.runtime.serving.model_output import model_output
from serq.runtime.serving.planned_engine import EngineParts, ExpressionPrice, PlannedEngine
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.serving.step_totals import TotalsReader, step_of_nobody
from serq.runtime.serving.watch import check_fits, note_preemption, stalled
from serq.runtime.session import Session
from serq.runtime.stage import Waker
from serq.runtime.upstream_defects import UpstreamCrashError
from serq.runtime.vllm.engine_core import (
    AbortRequest,
    AddRequest,
    EngineCore,
    EngineObserver,
    IdleReason,
    Launch,
    Turn,
    WaitUntil,
)
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.request import Request, Time
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput

if TYPE_CHECKING:
    from serq.runtime.serving.kv_worker import KVWorker


class VllmEngine(PlannedEngine):
    """Drives an engine core: the one that recorded traces prove.

    Messages reach the core at once and are read between steps. The core takes its turns when an instant has
    settled, so a step sees everything that was sent up to its forming. The device runs steps one after
    another; a step without tokens costs nothing and takes no event.
    """

    def __init__(self, name: str, member: int, host: Waker, parts: EngineParts, log: EngineLog) -> None:
        super().__init__(name, member, host, parts, EngineCore(parts.scheduler, _Aborts(self)), log)
        self.resolved = parts.resolved
        self.hasher = parts.hasher
        self.connector = parts.resolved.connector
        """The name of its `kv_connector`; None: it has none."""
        self._worker = self._kv_worker(parts)
        self.stalled_reason: IdleReason | None = None
        """Why nothing can be scheduled although requests remain; None while something can."""
        self._step_price = parts.price
        reads = parts.price.reads if isinstance(parts.price, ExpressionPrice) else frozenset[str]()
        self._totals = TotalsReader(reads, parts.scheduler.kv_cache_manager)
        self._untaken: list[SentRequest] = []
        self._awaits_step = False
        self._has_news = False

    def _kv_worker(self, parts: EngineParts) -> KVWorker | None:
        if parts.link is None:
            return None
        # Only engines with a connector need these, and they bring vllm-ascend's offload along.
        from serq.runtime.serving.engine_connector import EngineConnector
        from serq.runtime.serving.kv_worker import KVWorker

        connector = parts.scheduler.connector
        if not isinstance(connector, EngineConnector):
            return None
        return KVWorker(connector, parts.link, parts.scheduler.kv_cache_manager, self._transfer_ended)

    def now(self) -> float:
        """The instant."""
        return self._clock.now

    # --- intake -----------------------------------------------------------------------------------------

    def send(self, sent: SentRequest) -> None:
        """A request arrives. Raises RunError for one that no empty engine could hold."""
        check_fits(sent.request, self.scheduler.kv_cache_manager, self)
        self._cut_for(WalkReason.MESSAGE)
        self.account(self._clock.now)
        self.number += 1
        self.log.opened(sent)
        self._sent[sent.request.request_id] = sent
        self._untaken.append(sent)
        self.core.intake((AddRequest(sent.request),))
        self._news()

    def abort(self, sent: SentRequest) -> None:
        """A client gives up on a request that has not ended."""
        self._cut_for(WalkReason.MESSAGE)
        self.tell(sent.request)
        self.core.intake((AbortRequest(sent.request.request_id),))
        self._news()

    def let_go(self, sent: SentRequest) -> None:
        """The blocks that are kept of ``sent`` were fetched, or nobody will fetch them (S-135)."""
        if self._worker is not None:
            self._worker.let_go(sent)

    def _transfer_ended(self) -> None:
        self.core.wake()
        self._news()

    def _news(self) -> None:
        self._has_news = True
        if not self._awaits_step:
            self._host.attend(self)

    # --- steps ------------------------------------------------------------------------------------------

    def idle(self) -> bool:
        """Whether the core has something to decide and is not waiting for a step."""
        return self._has_news and not self._awaits_step

    def begin(self) -> None:
        """Let the core take its turns until it waits: for a step, or for a message."""
        now = self._clock.now
        self._has_news = False
        self.take_in(now)
        while True:
            turn = self._turn(now)
            if isinstance(turn, Launch):
                self._launch(turn.step, now)
                if not self.core.waits:
                    continue
            if isinstance(turn, (Launch, WaitUntil)):
                if self._await_step(now):
                    return
            else:
                self.stalled_reason = None if turn.reason is IdleReason.NO_REQUESTS else turn.reason
                return

    def take_in(self, now: float) -> None:
        """The core reads now what was sent since its last turn."""
        self.log.account_blocks(now)
        for sent in self._untaken:
            sent.queued_time = now
        self._untaken.clear()
        self.stalled_reason = None

    def _turn(self, now: float) -> Turn:
        try:
            return self.core.turn(now)
        except UpstreamCrashError as error:
            raise error.at(f"{self!r}") from None

    def _launch(self, step: SchedulerOutput, now: float) -> None:
        """Price a step that was formed and hand it to the device."""
        scheduler = self.scheduler
        start = max(now, self._device_free_at)
        prefill_tokens = 0
        for request_id, hits in step.hits.items():
            self._found(request_id, hits)
        for share in step.scheduled.values():
            if not share.is_decode:
                prefill_tokens += share.num_tokens
            if share.kind != "running":
                self._admitted(share.request.request_id, now)
        running = len(scheduler.running)
        end = start
        if step.total_num_scheduled_tokens:
            end += self._price(step, running, prefill_tokens)
            self.iterations += 1
            self.log.queue.formed += 1
            self.count_walked()
        self._device_free_at = end
        if self._worker is not None:
            self._worker.begin(start)
        free_blocks = scheduler.kv_cache_manager.block_pool.num_free_blocks
        self._steps.append(
            StepInFlight(
                step, now, start, end, prefill_tokens, running, scheduler.num_waiting, free_blocks,
                step.num_scheduled,
            )
        )  # fmt: skip
        for request_id in step.preempted_req_ids:
            note_preemption(self._sent.get(request_id), f"{self!r}")

    def _price(self, step: SchedulerOutput, running: int, prefill_tokens: int) -> float:
        price = self._step_price
        if isinstance(price, ExpressionPrice):
            seconds = price.cost(self._totals.read(step, running, prefill_tokens))
        else:
            seconds = price.seconds(step.batch())
        return checked_cost(seconds, step.total_num_scheduled_tokens, self)

    def price_alone(self, tokens: int, computed: int) -> float:
        """Seconds of a step that computes ``tokens`` of nobody's request on top of ``computed`` ones.

        Without computed tokens it is a prefill, else a decode. It counts as no step of the engine.
        """
        step = step_of_nobody(tokens, computed)
        price = self._step_price
        if isinstance(price, ExpressionPrice):
            prefill_tokens = 0 if computed else tokens
            seconds = price.cost(self._totals.read(step, len(self.scheduler.running), prefill_tokens))
        else:
            seconds = price.executor.price(step.batch()).seconds
        return checked_cost(seconds, tokens, self)

    def _found(self, request_id: str, hits: tuple[int, int]) -> None:
        """Note what was cached here and loaded from elsewhere when a request was first let in."""
        sent = self._sent.get(request_id)
        if sent is not None and sent.cached is None:
            sent.cached, sent.fetched = hits

    def _admitted(self, request_id: str, now: float) -> None:
        sent = self._sent.get(request_id)
        if sent is not None and isnan(sent.scheduled_time):
            sent.scheduled_time = now
            self.log.admitted(sent)

    def _await_step(self, now: float) -> bool:
        """Whether the oldest step takes time; one without tokens is done at once.

        Unless somebody may hear of it: what sessions hear is an event.
        """
        oldest = self._steps[0]
        tells = bool(oldest.step.recomputed) or (self._worker is not None and self._worker.has_ended)
        if oldest.end <= now and not oldest.step.total_num_scheduled_tokens and not tells:
            self._finish(now)
            return False
        self._awaits_step = True
        self.start_plan(self._plan(max(now, oldest.end), now))
        return True

    def end_step(self) -> None:
        """The step under way ends now."""
        self._awaits_step = False
        self._news()
        self._finish(self._clock.now)

    def _finish(self, now: float) -> None:
        """The oldest step is done: hand its tokens to whoever waits for them."""
        done = self._steps.popleft()
        self.log.account_blocks(now)
        result = self._result(done.step)
        reported = self._worker is not None and self._worker.report(result)
        try:
            outputs = self.core.finish(result, now)
        except UpstreamCrashError as error:
            raise error.at(f"{self!r}") from None
        self.scheduler.step_took(done.step, done.end - done.start)
        self.log.step_ended(done)
        self._last_end = now
        if done.step.preempted_req_ids or done.step.recomputed or reported:
            self.core.wake()  # a step in which somebody gave way admits nobody, the next may (S-044, V-040)
        for share in done.step.scheduled.values():
            if not share.is_decode:
                self._note_progress(share)
        for output in outputs:
            self._deliver(output, now)

    def _result(self, step: SchedulerOutput) -> ModelOutput:
        """What the model says in ``step``."""
        if not step.scheduled:
            return ModelOutput({})
        return model_output(step, self.resolved.config, self.resolved.acceptance, self._sent)

    def _deliver(self, output: RequestOutput, now: float) -> None:
        request_id = output.request.request_id
        sent = self._sent[request_id]
        if output.num_new_tokens:
            self._note_token(sent, now)
        if output.finished is not None:
            sent.end(output.finished, now)
            self._forget(sent, now)
            self.complete(now, sent.scheduled_time, sent.scheduled_time - sent.sent_time)
            self._host.wake(sent.session)

    def aborted(self, request: Request, now: Time) -> None:
        """The core has let go of a request whose client gave up, and went on then."""
        sent = self._sent[request.request_id]
        sent.end(request.status, now)
        self._forget(sent, now)

    def _forget(self, sent: SentRequest, now: float) -> None:
        self.account(now)
        self.number -= 1
        del self._sent[sent.request.request_id]
        self.log.closed(sent, now)
        if self._worker is None:
            del sent.request.client  # nobody in the engine asks for it any more

    # --- figures ----------------------------------------------------------------------------------------

    def reset(self, now: float) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self.catch_up()
        super().reset(now)
        self.log.reset(now)

    def engine_row(self, now: float) -> EngineRow:
        """The options of the engine and its figures since warm-up."""
        self.catch_up()
        row = self.log.row(self.resolved.options, now, [sent.request for sent in self._sent.values()])
        row.planned_steps, row.walked_steps = self.planned_steps, self.reasons_walked()
        return row

    @property
    def is_stalled(self) -> bool:
        """Whether requests remain, none can be scheduled, and no transfer is under way."""
        moving = self._worker is not None and self._worker.num_under_way > 0
        return self.stalled_reason is not None and self.number > 0 and not moving

    def check_stall(self) -> None:
        """Raise RunError if requests remain and none can be scheduled; asked when no event is left."""
        if self.is_stalled:
            raise stalled(f"{self!r}", list(self._sent.values()))

    def note_unfinished(self) -> None:
        """Write down how far the requests have come that are here."""
        self.tell_all()
        for sent in self._sent.values():
            self.log.progressed(sent)

    # --- live reads -------------------------------------------------------------------------------------

    def busy(self) -> float:
        """`busy`: requests that run."""
        return self.running()

    def running(self) -> float:
        """`running`: requests that run, which need not be in the step under way."""
        return float(len(self.scheduler.running))

    def waiting(self) -> float:
        """`waiting`: requests sent and not running, those not yet taken in included."""
        return float(self.number - len(self.scheduler.running))

    def kv_usage(self) -> float:
        """`kv_usage`: share of the blocks that requests hold, 0 to 1."""
        self.catch_up()
        return self.scheduler.kv_cache_manager.block_pool.usage

    def reusable(self, session: Session, handle: str) -> float:
        """`reusable(S, h)`: tokens of the conversation of ``h`` so far that are cached here."""
        sent = session.requests.get(handle)
        if sent is None or self.hasher is None:
            return 0.0
        self.catch_up()
        sent.engine.tell(sent.request)
        keys = sent.prefix_keys(self.hasher)
        return float(self.scheduler.kv_cache_manager.cached_tokens(keys, sent.request.num_tokens))

    def remaining_work(self) -> float:
        """`work` would read lengths that nobody knows."""
        raise RunError(f"`work({self.name})`: the lengths of its outputs are not known", code="unseen-work")


class _Aborts(EngineObserver):
    """Tells an engine which requests its core aborted."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine

    def aborted(self, request: Request, now: Time) -> None:
        self._engine.aborted(request, now)
