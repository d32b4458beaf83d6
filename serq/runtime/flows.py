"""Runs over several stages at once: one rate everywhere, shared by one policy (R-B-060 to R-B-065)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal

from serq.runtime.clock import Action, Clock, Ticket
from serq.runtime.stage import Stage, Waker

if TYPE_CHECKING:
    from serq.runtime.session import Session

Policy = Literal["maxmin", "bottleneck"]


class Flow:
    """One job on all ``stages`` at once: it starts, progresses and ends everywhere together."""

    __slots__ = ("done", "joined", "rate", "remaining", "session", "stages")

    def __init__(
        self,
        session: Session | None,
        work: float,
        stages: tuple[FlowStage, ...],
        joined: float,
        done: Action | None,
    ) -> None:
        self.session = session
        self.done = done
        self.remaining = work
        self.stages = stages
        self.rate = 0.0
        self.joined = joined


class FlowStage(Stage):
    """A `ps` stage of constant capacity that flows cross; runs over it alone are flows too (R-B-060)."""

    def __init__(self, name: str, member: int, host: Waker, capacity: float, network: FlowNetwork) -> None:
        super().__init__(name, member, host)
        self.capacity = capacity
        self.flows: dict[Flow, None] = {}
        self._load = 0.0
        self._network = network
        network.stages.append(self)

    def start(self, session: Session | None, work: float, done: Action | None = None) -> None:
        """A flow over this stage alone; when it has ended its session goes on, or ``done`` is called."""
        self._network.start(session, work, (self,), done)

    def occupancy(self) -> float:
        """The share of the capacity that is used (R-B-062)."""
        return self._load / self.capacity

    def share(self) -> None:
        """Rates have changed."""
        load = 0.0
        for flow in self.flows:
            load += flow.rate
        self._load = load

    def join(self, flow: Flow) -> None:
        """``flow`` crosses this stage from now on."""
        self.flows[flow] = None
        self.number += 1

    def leave(self, flow: Flow) -> None:
        """``flow`` is gone."""
        del self.flows[flow]
        self.number -= 1

    def remaining_work(self) -> float:
        """`work`: what is left of the flows present (R-B-064)."""
        return self._network.remaining(self.flows)


class FlowNetwork:
    """All flows of a run, and the rates they have."""

    def __init__(self, clock: Clock, host: Waker, policy: Policy) -> None:
        self.stages: list[FlowStage] = []
        self._clock = clock
        self._host = host
        self._policy = policy
        self._flows: dict[Flow, None] = {}
        self._of_session: dict[Session, Flow] = {}
        self._updated = 0.0
        self._next: Ticket | None = None
        self.changed = False
        """Whether :meth:`plan` is due."""

    def start(
        self,
        session: Session | None,
        work: float,
        stages: tuple[FlowStage, ...],
        done: Action | None = None,
    ) -> None:
        """A flow of ``work`` > 0 joins all ``stages``."""
        flow = Flow(session, work, stages, self._clock.now, done)
        self._advance()
        self._flows[flow] = None
        for stage in stages:
            stage.join(flow)
        if session is not None:
            self._of_session[session] = flow
            session.blocked_on = self
        self.changed = True

    def withdraw(self, session: Session) -> None:
        """The flow of ``session`` ends undone: its session was preempted."""
        self._remove(self._of_session[session])
        self.changed = True

    def remaining(self, flows: dict[Flow, None]) -> float:
        """What is left of ``flows`` at this instant."""
        elapsed = self._clock.now - self._updated
        total = 0.0
        for flow in flows:
            total += max(0.0, flow.remaining - flow.rate * elapsed)
        return total

    def _advance(self) -> None:
        now = self._clock.now
        for stage in self.stages:
            stage.account(now)
        elapsed = now - self._updated
        if elapsed > 0.0:
            for flow in self._flows:
                flow.remaining -= flow.rate * elapsed
        self._updated = now

    def _remove(self, flow: Flow) -> None:
        self._advance()
        del self._flows[flow]
        for stage in flow.stages:
            stage.leave(flow)
        if flow.session is not None:
            del self._of_session[flow.session]

    def _finish(self, flow: Flow) -> None:
        self._next = None
        self._remove(flow)
        now = self._clock.now
        for stage in flow.stages:
            stage.complete(now, flow.joined, 0.0)
        self.changed = True
        if flow.session is not None:
            self._host.wake(flow.session)
        elif flow.done is not None:
            flow.done()

    def plan(self) -> None:
        """Flows came or went: set all rates anew, and plan the flow that ends next.

        Of equals it is the one that started first. Done once for all changes, after the instant has settled.
        """
        self.changed = False
        if self._policy == "maxmin":
            self._fill()
        else:
            for flow in self._flows:
                flow.rate = min(stage.capacity / stage.number for stage in flow.stages)
        for stage in self.stages:
            stage.share()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        first: Flow | None = None
        soonest = inf
        now = self._clock.now
        for flow in self._flows:
            end = now + max(flow.remaining, 0.0) / flow.rate if flow.rate > 0.0 else inf
            if end < soonest:
                first, soonest = flow, end
        if first is not None:
            ending = first
            self._next = self._clock.at(soonest, lambda: self._finish(ending))

    def _fill(self) -> None:
        """Progressive filling: raise all rates together; a stage that is full freezes its flows (R-B-061)."""
        left = {stage: stage.capacity for stage in self.stages if stage.number}
        growing = {stage: stage.number for stage in left}
        frozen: set[Flow] = set()
        while len(frozen) < len(self._flows):
            full = min(
                (stage for stage in left if growing[stage]), key=lambda stage: left[stage] / growing[stage]
            )
            rate = left[full] / growing[full]
            for flow in full.flows:
                if flow in frozen:
                    continue
                frozen.add(flow)
                flow.rate = rate
                for stage in flow.stages:
                    left[stage] -= rate
                    growing[stage] -= 1
