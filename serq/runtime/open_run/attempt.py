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
from serq.runtime.open_run.sessions import SessionRun
from serq.runtime.open_run.stage import OpenStage
from serq.runtime.recorder import turn_number
from serq.runtime.serving.gateway import hash_ids_of

if TYPE_CHECKING:
    from serq.runtime.simulation import Simulation


class Attempt:
    """One try of ``simulation``, which was built and has not begun, and whose program has the shape."""

    def __init__(self, simulation: Simulation, engines: list[OpenEngine], drains: bool) -> None:
        """``drains``: the run ends with the last of the arrivals that were asked for."""
        self.simulation = simulation
        self.engines = engines
        self.drains = drains
        self.gateway = OpenGateway(simulation.clock, simulation.deployment.serving.requests, drains)
        stages: dict[str, list[OpenStage]] = {}
        for engine in engines:
            stages.setdefault(engine.stage.name, []).append(OpenStage(engine, simulation.clock))
        names = simulation.model.stages
        simulation.functions.update({names[name]: tuple(members) for name, members in stages.items()})

    def run(self, horizon: float, report: Callable[[], None]) -> None:
        """Run to the end, and ``report`` now and then.

        Raises LeaveOpenRun if that is not possible; KeyboardInterrupt at Ctrl-C.
        """
        try:
            last = self._run(horizon, report)
        except SerqError as error:
            raise LeaveOpenRun(ClockReason.ERROR) from error
        except KeyboardInterrupt:
            self._close(max([self.simulation.clock.now, *(engine.last_end for engine in self.engines)]))
            raise
        self._close(last)

    def _run(self, horizon: float, report: Callable[[], None]) -> float:
        """Run; the instant of the end."""
        raise NotImplementedError

    def _close(self, now: float) -> None:
        """Hand over what was counted, up to ``now``."""
        self.simulation.clock.now = now
        for engine in self.engines:
            engine.close(now)
        self.gateway.write_all()

    def steps(self) -> int:
        """Step ends so far, each of which is an event."""
        return sum(engine.processed for engine in self.engines)


class AttemptOfRequests(Attempt):
    """Every session sends one request: nothing at all is on the clock."""

    def __init__(self, simulation: Simulation, engines: list[OpenEngine], drains: bool) -> None:
        super().__init__(simulation, engines, drains)
        simulation.functions.update(self._supplied())
        self._loop = OpenRun(
            simulation.clock,
            simulation.workload,
            simulation.functions["open_arrive"],
            self.gateway,
            engines,
            simulation.warmup,
            closed=isinstance(simulation.model.program.workload.arrive, nodes.Closed),
        )

    def _supplied(self) -> dict[str, object]:
        """What the generated code of sessions calls and reads."""
        simulation = self.simulation
        supplied: dict[str, object] = {
            "send": self.gateway.send,
            "never_sent": _never_sent,
            "hash_ids_of": hash_ids_of,
            "turn_number": turn_number,
            "workload": simulation.workload,
            "stream_of_draws": simulation.random.session,
            "stream_of_workload_draws": simulation.random.workload,
            "warmup": simulation.warmup,
        }
        for name, python in simulation.model.series.items():
            series = simulation.series[name]
            for column in SAMPLE_COLUMNS:
                supplied[f"{python}_{column}"] = getattr(series, column).append
        return supplied

    def _run(self, horizon: float, report: Callable[[], None]) -> float:
        simulation, loop = self.simulation, self._loop

        def pause() -> None:
            simulation.world.events = self._events()
            report()

        last = loop.run(horizon, simulation.end_warmup, pause)
        if not self.drains:
            return horizon
        if not simulation.workload.complete() or loop.live or last <= simulation.warmup:
            raise LeaveOpenRun(ClockReason.NOT_DRAINED)
        return last

    def _close(self, now: float) -> None:
        super()._close(now)
        loop = self._loop
        self.simulation.world.stand(
            live=loop.live,
            ended=loop.ended,
            live_time=loop.live_time,
            since=loop.live_since,
            events=self._events(),
        )

    def _events(self) -> int:
        """Arrivals, step ends, and the end of warm-up."""
        simulation = self.simulation
        at_once = isinstance(simulation.model.program.workload.arrive, nodes.Batch | nodes.Closed)
        arrivals = 0 if at_once else simulation.workload.arrivals
        warmed = 0.0 < simulation.warmup <= simulation.clock.now
        return arrivals + self.steps() + warmed


class AttemptOfSessions(Attempt):
    """Sessions send requests, and let time pass in between: what they do is on the clock."""

    def __init__(self, simulation: Simulation, engines: list[OpenEngine], drains: bool) -> None:
        super().__init__(simulation, engines, drains)
        self._loop = SessionRun(
            simulation.clock, simulation.world, simulation.workload, self.gateway, engines
        )
        simulation.functions.update(send_request=self._loop.send, sent_request=self._loop.read)
        warmup = simulation.warmup
        if warmup > 0.0:
            simulation.clock.at(warmup, lambda: self._loop.end_warmup(warmup, simulation.end_warmup))

    def _run(self, horizon: float, report: Callable[[], None]) -> float:
        simulation = self.simulation
        self._loop.run(horizon, simulation.drained, report)
        simulation.finish()
        return simulation.clock.now

    def _close(self, now: float) -> None:
        super()._close(now)
        self.simulation.world.events += self.steps()


def attempt(simulation: Simulation, limit: int | None) -> Attempt | ClockReason:
    """What runs ``simulation``, with ``limit`` arrivals, ahead of the clock; or why it cannot.

    It has `vllm` stages.
    """
    model = simulation.model
    if model.clock_reason is not None:
        return model.clock_reason
    engines = open_engines(simulation.deployment.serving.engines, simulation.clock, model.program)
    if engines is None:
        return ClockReason.ENGINE
    if model.sends_one_request:
        return AttemptOfRequests(simulation, engines, limit is not None)
    if len({(engine.size, engine.cached is None) for engine in engines}) > 1:
        return ClockReason.ENGINE  # a conversation may go from one to the other
    return AttemptOfSessions(simulation, engines, limit is not None)


def _never_sent() -> NoReturn:
    """A session reads a request that it has not sent."""
    raise LeaveOpenRun(ClockReason.ERROR)
