"""One run of a program: build it, let time pass, and hand over what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from serq.errors import InterruptedRunError, RunError
from serq.ir import nodes
from serq.ir.serving import FetchedFrom
from serq.ir.walk import descendants
from serq.runtime.clock import Clock
from serq.runtime.codegen.model import Model, model_of
from serq.runtime.deployment import Deployment
from serq.runtime.faults import checked_amount, locate
from serq.runtime.findings import findings
from serq.runtime.garbage import rare_garbage_collection
from serq.runtime.gauges import Gauge
from serq.runtime.hold import HoldPlan
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun, known_reason
from serq.runtime.random import RandomSource
from serq.runtime.recorder import recorder
from serq.runtime.records import Records, Series
from serq.runtime.request_records import (
    PREEMPTION_COLUMNS,
    QUEUE_COLUMNS,
    REQUEST_COLUMNS,
    STEP_COLUMNS,
    trim,
)
from serq.runtime.serving.engines import EngineMode
from serq.runtime.serving.gateway import Gateway, RequestTerms
from serq.runtime.session import Preempted, session_class
from serq.runtime.sink import LiveRecords, RecordSink
from serq.runtime.straight.run import StraightRun
from serq.runtime.straight.shape import StraightProgram
from serq.runtime.trace import TraceSource
from serq.runtime.workload import SessionCode, Workload
from serq.runtime.world import World
from serq.source import SourceMap

Progress = Callable[[float, int], None]
"""Called with the time reached and the events so far."""

_EVENTS_BETWEEN_PROGRESS = 1_000


def simulate(
    program: nodes.Program,
    *,
    seed: int | None = None,
    horizon: float | None = None,
    warmup: float | None = None,
    arrivals: int | None = None,
    trace: TraceSource | None = None,
    keep_rows: bool = False,
    source_map: SourceMap | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
    sink: RecordSink | None = None,
    engine: EngineMode = "auto",
) -> Records:
    """Run ``program`` to its end and return what it recorded.

    ``seed``, ``horizon``, ``warmup`` and ``arrivals`` stand in for the run block; times have the unit of the
    program. ``trace`` is what the workload replays; ``keep_rows`` keeps the rows of every step of
    `vllm` stages, which costs time and memory; ``source_map`` lets messages show the text; files that
    executors read are relative to ``folder``. ``sink`` takes records away while the run goes on; those
    returned are then the rest. ``engine``: "auto" is ahead of the clock where that is possible, else steps
    are planned; "fast" refuses where none ever is, "planned" is always on the clock, "reference" walks.

    Raises RunError, with ``records`` up to that instant, when a rule of the language is broken on the way;
    InterruptedRunError, likewise, at Ctrl-C; DataError for a trace that cannot be replayed.
    """
    settings = program.run

    def build() -> Simulation:
        return Simulation(
            program,
            seed=settings.seed if seed is None else seed,
            horizon=_horizon(settings.horizon if horizon is None else horizon),
            warmup=settings.warmup if warmup is None else warmup,
            arrivals=settings.arrivals if arrivals is None else arrivals,
            trace=trace,
            keep_rows=keep_rows,
            folder=folder or Path(),
            engine=engine,
        )

    with rare_garbage_collection():
        run = build()
        try:
            reason = known_reason(engine, keep_rows, run.deployment.serving) or run.run_ahead(progress, sink)
            if reason is not None:
                run = build() if run.has_begun else run
                run.clock_reason = reason
                run.run(progress, sink)
        except RunError as error:
            locate(error, run.clock.now, run.model, source_map)
            error.records = run.records(stopped=error.message)
            raise
        except KeyboardInterrupt:
            run.drop_partial_samples()
            interrupted = InterruptedRunError("interrupted", time=run.clock.now)
            interrupted.records = run.records(stopped="interrupted")
            raise interrupted from None
        return run.records()


def _fetched(program: nodes.Program) -> frozenset[tuple[str, str]]:
    """The handles whose KV some request fetches, each with the connector."""
    fetches = (node for node in descendants(program) if isinstance(node, FetchedFrom))
    return frozenset((node.handle, node.connector) for node in fetches)


def _horizon(value: float | None) -> float:
    if value is None or not 0.0 < value < inf:
        raise RunError("a run needs a finite, positive horizon", code="no-horizon")
    return value


class Simulation:
    """A program bound to one run."""

    clock_reason: ClockReason | None = None
    """Why it is on the clock; None: it ran ahead of it."""
    has_begun = False
    """Whether it ran ahead of the clock, and be it not to the end: then it is spent."""

    def __init__(
        self,
        program: nodes.Program,
        *,
        seed: int,
        horizon: float,
        warmup: float,
        arrivals: int | None,
        trace: TraceSource | None,
        keep_rows: bool = False,
        folder: Path = Path(),
        engine: EngineMode = "auto",
    ) -> None:
        self.clock = Clock()
        self.model: Model = model_of(program)
        self._seed = seed
        self.horizon = horizon
        self.warmup = warmup
        self._limit = arrivals
        self.series = {name: Series(name) for name in self.model.series}
        self.world = World(self.clock)
        random = self.random = RandomSource(seed)
        functions = self.functions = self.model.bind(self._supplied())
        self.deployment = Deployment(
            self.model, functions, self.world, random, keep_rows=keep_rows, folder=folder, engine=engine
        )
        whole = engine in ("auto", "fast") and (trace is None or trace.whole)
        straight = self.model.straight if whole else None
        self.workload = Workload(
            program.workload,
            SessionCode(
                session_class(self.model.attributes),
                functions["session_statements"] if straight is None else None,
                *(functions["init_block"], functions["turn_block"]),
                *(self.model.session_draws, self.model.workload_draws),
            ),
            self.world,
            random,
            trace,
            functions.get("arrival_gap"),
            arrivals,
        )
        self._gauges = [
            Gauge(gauge.name, functions[f"gauge_{number}"]) for number, gauge in enumerate(program.gauges)
        ]
        gateway = Gateway(self.clock, self.world.wake, random, _fetched(program))
        functions.update(
            {self.model.pools[name]: members for name, members in self.deployment.pools.items()},
            **{self.model.stages[name]: members for name, members in self.deployment.stages.items()},
            begin_turn=self.workload.begin_turn,
            run=self.deployment.run,
            run_flow=self.deployment.run_flow,
            run_tokens=self.deployment.run_tokens,
            send_request=gateway.send,
            sent_request=gateway.read,
            RequestTerms=RequestTerms,
        )
        self._straight = None if straight is None else self._straight_run(straight, functions)

    def _straight_run(self, parts: StraightProgram, functions: dict[str, Any]) -> StraightRun:
        run = StraightRun(parts, self.world, self.deployment, functions, self.workload)
        run.let_warm_up(self.warmup, self.end_warmup)
        functions[self.model.stages[parts.engine.name]] = run.engines
        return run

    def _supplied(self) -> dict[str, object]:
        """What the generated code calls."""
        holdings = self.world.holdings
        names: dict[str, object] = {
            "clock": self.clock,
            "HoldPlan": HoldPlan,
            "Preempted": Preempted,
            "count_statements": self.world.count_statements,
            "checked_amount": checked_amount,
        }
        for name in ("join", "leave", "grow", "load", "drop", "release"):
            names[name] = getattr(holdings, name)
        for name, python in self.model.series.items():
            names[python] = recorder(self.series[name], self.clock, self.warmup)
        return names

    def drop_partial_samples(self) -> None:
        """Make the columns of every table equally long, after an interrupt at any instruction."""
        for series in self.series.values():
            series.trim()
        serving = self.deployment.serving
        trim(serving.requests, REQUEST_COLUMNS)
        for engine in serving.engines:
            trim(engine.log.steps, STEP_COLUMNS)
            trim(engine.log.queue.stays, QUEUE_COLUMNS)
            trim(engine.log.queue.preemptions, PREEMPTION_COLUMNS)

    def run_ahead(self, progress: Progress | None, sink: RecordSink | None) -> ClockReason | None:
        """Run ahead of the clock to the end; or why that is not possible, though it may have begun."""
        from serq.runtime.open_run.attempt import attempt  # brings the engines along

        found = attempt(self, self._limit)
        if isinstance(found, ClockReason):
            return found
        self.has_begun = True
        try:
            found.run(self.horizon, lambda: self._report(progress, sink))
        except LeaveOpenRun as leaving:
            if sink is not None:
                sink.begin_again()
            return leaving.reason
        return None

    # --- time -------------------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None, sink: RecordSink | None = None) -> None:
        """Let time pass until the horizon, or until the arrivals that were asked for are gone (R-B-092)."""
        try:
            self._run(progress, sink)
        except (RunError, KeyboardInterrupt):
            if self.world.unwatched:
                for planner in self.world.planners:
                    planner.catch_up()
            raise
        finally:
            if self._straight is not None:
                self._straight.hand_back()

    def _run(self, progress: Progress | None, sink: RecordSink | None) -> None:
        world, clock, horizon = self.world, self.clock, self.horizon
        if self._straight is not None:
            over = None if self._limit is None else self.drained
            self._straight.run(horizon, over, lambda: self._report(progress, sink))
            self.finish()
            return
        if self.warmup > 0.0:
            clock.at(self.warmup, self.end_warmup)
        self.workload.begin()
        world.settle()
        world.react()
        self._sample_gauges()
        advance = world.advance
        countdown = _EVENTS_BETWEEN_PROGRESS
        while not self.drained():
            if self._gauges:
                self._sample_planned(min(clock.next_time(), horizon))
            if not advance(horizon):
                for planner in world.planners:
                    planner.follow_to(horizon)
                break
            if self._gauges:
                self._sample_gauges()
            countdown -= 1
            if countdown == 0:
                countdown = _EVENTS_BETWEEN_PROGRESS
                self._report(progress, sink)
        if clock.next_time() == inf:
            self.deployment.serving.check_stalls()
        self.finish()

    def _report(self, progress: Progress | None, sink: RecordSink | None) -> None:
        if progress is not None:
            progress(self.clock.now, self.world.events)
        if sink is not None:
            sink.offer(self._live())

    def _sample_gauges(self) -> None:
        """Read the gauges if nothing more happens at this instant."""
        now = self.clock.now
        if self.clock.next_time() > now:
            for gauge in self._gauges:
                gauge.sample(now)

    def _sample_planned(self, until: float) -> None:
        """Read the gauges after every step end that is planned before ``until``, or for it (the horizon)."""
        clock = self.clock
        now, phase = clock.now, clock.phase
        instants = {
            end
            for planner in self.world.planners
            if planner.plan is not None
            for end in planner.plan.ends[planner.plan.followed :]
            if now < end and (end < until or end == self.horizon < clock.next_time())
        }
        if not instants:
            return
        clock.phase = 1
        for instant in sorted(instants):
            clock.now = instant
            for planner in self.world.followed:
                planner.follow_to(instant)
            for gauge in self._gauges:
                gauge.sample(instant)
        clock.now, clock.phase = now, phase

    def drained(self) -> bool:
        """Whether the arrivals that were asked for have come and gone; False if none were (R-B-092)."""
        return self._limit is not None and self.workload.complete() and self.world.live == 0

    def finish(self) -> None:
        """Set the clock to the end of the run (R-B-092)."""
        clock, limit = self.clock, self._limit
        if limit is None:
            clock.now = self.horizon
            return
        if not self.workload.complete():
            clock.now = self.horizon
            raise RunError(
                f"only {self.workload.arrivals} of {limit} sessions arrived before the horizon",
                code="not-drained",
            )
        if self.world.live:
            clock.now = self.horizon
            raise RunError(f"{self.world.live} sessions were still live at the horizon", code="not-drained")
        if clock.now <= self.warmup:
            raise RunError("all sessions ended before the warm-up was over", code="drained-in-warmup")

    def end_warmup(self) -> None:
        """Statistics begin here (R-B-003, R-B-091)."""
        now = self.clock.now
        self.world.reset()
        self.workload.turns = 0
        for pool in self.world.pools:
            pool.reset(now)
        for stage in self.deployment.members():
            stage.reset(now)
        for gauge in self._gauges:
            gauge.reset(now)
        for link in self.deployment.links.values():
            link.reset()
        self.deployment.pricing.reset()

    # --- what it leaves behind --------------------------------------------------------------------------

    def _live(self) -> LiveRecords:
        """What is recorded, as it stands."""
        serving = self.deployment.serving
        logs = [engine.log for engine in serving.engines]
        return LiveRecords(self.series, serving.requests, logs, serving.note_progress)

    def records(self, stopped: str | None = None) -> Records:
        """Everything recorded up to now."""
        now, world = self.clock.now, self.world
        span = now - self.warmup if now > self.warmup else inf
        stages = list(self.deployment.members())
        for pool in world.pools:
            pool.account(now)
        for stage in stages:
            stage.account(now)
        serving = self.deployment.serving
        engines = serving.rows(now)
        found = [] if stopped else list(findings(world, stages, self.workload, self.warmup))
        return Records(
            horizon=self.horizon,
            end=now,
            warmup=self.warmup,
            seed=self._seed,
            events=world.events,
            arrivals=self.workload.arrivals,
            ended=world.ended,
            turns=self.workload.turns,
            mean_live=world.live_time() / span,
            series=self.series,
            stages=[stage.row(span) for stage in stages],
            pools=[pool.row(span) for pool in world.pools],
            warnings=[*found, *serving.warnings(now), *self.deployment.pricing.warnings()],
            engines=engines,
            requests=serving.requests,
            prices=self.deployment.pricing.rows(),
            gauges=[gauge.row(now) for gauge in self._gauges],
            connectors=[link.row() for link in self.deployment.links.values()],
            stopped=stopped,
            clock_reason=None if self.clock_reason is None else self.clock_reason.value,
        )
