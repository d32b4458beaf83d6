"""A simulation tries to run ahead of the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from serq.errors import SerqError
from serq.ir import nodes
from serq.runtime.codegen.open_sessions import SAMPLE_COLUMNS
from serq.runtime.open_run.assembly import open_engines
from serq.runtime.open_run.driver import OpenRun
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.gateway import OpenGateway
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.stage import OpenStage
from serq.runtime.recorder import turn_number
from serq.runtime.serving.gateway import hash_ids_of

if TYPE_CHECKING:
    from serq.runtime.simulation import Simulation


class Attempt:
    """One try of ``simulation``, which was built and has not begun, and whose program has the shape."""

    def __init__(self, simulation: Simulation, engines: list[OpenEngine], limit: int | None) -> None:
        self._simulation = simulation
        self._engines = engines
        self._limit = limit
        self._gateway = OpenGateway(simulation.deployment.serving.requests, limit is not None)
        functions = simulation.functions
        functions.update(self._supplied(engines))
        self._run = OpenRun(
            simulation.clock,
            simulation.workload,
            functions["open_arrive"],
            self._gateway,
            engines,
            simulation.warmup,
            closed=isinstance(simulation.model.program.workload.arrive, nodes.Closed),
        )

    def _supplied(self, engines: list[OpenEngine]) -> dict[str, object]:
        """What the generated code of sessions calls and reads."""
        simulation = self._simulation
        model, random = simulation.model, simulation.random
        stages: dict[str, list[OpenStage]] = {}
        for engine in engines:
            stages.setdefault(engine.stage.name, []).append(OpenStage(engine, simulation.clock))
        supplied: dict[str, object] = {
            **{model.stages[name]: tuple(members) for name, members in stages.items()},
            "send": self._gateway.send,
            "never_sent": _never_sent,
            "hash_ids_of": hash_ids_of,
            "turn_number": turn_number,
            "workload": simulation.workload,
            "stream_of_draws": random.session,
            "stream_of_workload_draws": random.workload,
            "warmup": simulation.warmup,
        }
        for name, python in model.series.items():
            series = simulation.series[name]
            for column in SAMPLE_COLUMNS:
                supplied[f"{python}_{column}"] = getattr(series, column).append
        return supplied

    def run(self, horizon: float, report: Callable[[], None]) -> None:
        """Run to the end, and ``report`` now and then.

        Raises LeaveOpenRun if that is not possible; KeyboardInterrupt at Ctrl-C.
        """
        simulation, run = self._simulation, self._run
        clock = simulation.clock

        def pause() -> None:
            simulation.world.events = self._events()
            report()

        try:
            last = run.run(horizon, simulation.end_warmup, pause)
        except SerqError as error:
            raise LeaveOpenRun(ClockReason.ERROR) from error
        except KeyboardInterrupt:
            self._close(max([clock.now, *(engine.last_end for engine in self._engines)]))
            raise
        if self._limit is None:
            last = horizon
        elif not simulation.workload.complete() or run.live or last <= simulation.warmup:
            raise LeaveOpenRun(ClockReason.NOT_DRAINED)
        self._close(last)

    def _close(self, now: float) -> None:
        """Hand over what was counted, up to ``now``."""
        simulation, run = self._simulation, self._run
        simulation.clock.now = now
        for engine in self._engines:
            engine.close(now)
        self._gateway.write_all()
        simulation.world.stand(
            live=run.live,
            ended=run.ended,
            live_time=run.live_time,
            since=run.live_since,
            events=self._events(),
        )

    def _events(self) -> int:
        """Arrivals, step ends, and the end of warm-up."""
        simulation = self._simulation
        at_once = isinstance(simulation.model.program.workload.arrive, nodes.Batch | nodes.Closed)
        arrivals = 0 if at_once else simulation.workload.arrivals
        warmed = 0.0 < simulation.warmup <= simulation.clock.now
        return arrivals + sum(engine.processed for engine in self._engines) + warmed


def attempt(simulation: Simulation, limit: int | None) -> Attempt | ClockReason:
    """What runs ``simulation``, with ``limit`` arrivals, ahead of the clock; or why it cannot.

    It has `vllm` stages.
    """
    reason = simulation.model.clock_reason
    if reason is not None:
        return reason
    engines = open_engines(simulation.deployment.serving.engines, simulation.clock, simulation.model.program)
    return ClockReason.ENGINE if engines is None else Attempt(simulation, engines, limit)


def _never_sent() -> NoReturn:
    """A session reads a request that it has not sent."""
    raise LeaveOpenRun(ClockReason.ERROR)
