"""What all stages share: jobs, figures, online estimates, and how a session reads them (R-B-018, R-B-110)."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Protocol

from serq.runtime.clock import Clock
from serq.runtime.records import StageRow

if TYPE_CHECKING:
    from serq.runtime.holdings import Holdings
    from serq.runtime.session import Session

_GAIN = 0.01
_LARGEST_LOAD = 0.99


class Waker(Protocol):
    """What stages need of the world."""

    clock: Clock
    holdings: Holdings
    headers_change: bool
    """Whether some hold, or some order of waiting, reads what changes by itself: time, or live state."""
    restless: bool
    """Whether somebody asks anew at every event."""

    def wake(self, session: Session) -> None:
        """Let ``session`` go on when its turn comes."""

    def attend(self, stage: Stage) -> None:
        """Look at ``stage`` when the instant has settled: it may have something to do."""

    def has_begun(self, rank: int) -> bool:
        """Whether the stage of ``rank`` has had its turn at this instant."""

    def count_events(self, count: int) -> None:
        """Events that were not on the clock have happened: step ends of a planned run."""


@dataclass(slots=True)
class Estimates:
    """Exponentially smoothed means that a session may read: `est_lambda`, `est_rho`, `est_wait` (R-B-018).

    They move at completions, with gain 1/100: the gap to the start of the job that completed before, the
    time in service, the wait. Warm-up does not reset them.
    """

    completions: int = 0
    last_start: float = 0.0
    gap: float = 0.0
    service: float = 0.0
    wait: float = 0.0

    def completed(self, start: float, service: float, wait: float) -> None:
        """A job that started at ``start`` completed."""
        self.completions += 1
        if self.completions == 1:
            self.service, self.wait = service, wait
        else:
            gap = start - self.last_start
            self.gap = gap if self.completions == 2 else self.gap + _GAIN * (gap - self.gap)
            self.service += _GAIN * (service - self.service)
            self.wait += _GAIN * (wait - self.wait)
        self.last_start = start

    def rate(self) -> float:
        """Completions per time."""
        return 1.0 / self.gap if self.gap > 0.0 else 0.0

    def load(self) -> float:
        """Rate times service, at most 0.99."""
        return min(self.rate() * self.service, _LARGEST_LOAD)


class Stage:
    """One member of a stage. Every change of its population is preceded by :meth:`account`."""

    def __init__(self, name: str, member: int, host: Waker) -> None:
        self.name = name
        self.member = member
        self.number = 0
        """Jobs present."""
        self.iterations = 0
        self.rank = 0
        """Twice its number in the order of declaration: orders what is scheduled at once (see the clock)."""
        self.estimates = Estimates()
        self._host = host
        self._clock = host.clock
        self._since = 0.0
        self._present = 0.0
        self._busy = 0.0
        self._completed = 0
        self._wait = 0.0
        self._service = 0.0

    def __repr__(self) -> str:
        return f"{self.name}[{self.member}]"

    # --- figures ----------------------------------------------------------------------------------------

    def account(self, now: float) -> None:
        """Add the time since the last change to the integrals."""
        if now != self._since:
            elapsed = now - self._since
            self._present += self.number * elapsed
            self._busy += self.occupancy() * elapsed
            self._since = now

    def occupancy(self) -> float:
        """What utilisation averages over time: 1 with at least one job (R-B-010)."""
        return 1.0 if self.number else 0.0

    def complete(self, now: float, start: float, wait: float) -> None:
        """Count a job that completes now after ``wait`` and service since ``start`` (R-B-111)."""
        self._completed += 1
        self._wait += wait
        self._service += now - start
        self.estimates.completed(start, now - start, wait)

    def count_completion(self, service: float) -> None:
        """Count a job that completes after ``service`` and no wait, where nobody reads estimates."""
        self._completed += 1
        self._service += service

    def reset(self, now: float) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self.account(now)
        self._present = self._busy = self._wait = self._service = 0.0
        self._completed = 0

    def stand(
        self,
        number: int,
        *,
        since: float,
        present: float,
        busy: float,
        completed: int,
        wait: float,
        service: float,
    ) -> None:
        """Stand as if what somebody else has counted had happened here, up to the instant ``since``."""
        self.number, self._since = number, since
        self._present, self._busy = present, busy
        self._completed, self._wait, self._service = completed, wait, service

    def row(self, span: float) -> StageRow:
        """The figures over the last ``span`` of time."""
        completed = self._completed
        return StageRow(
            name=self.name,
            member=self.member,
            mean_number=self._present / span,
            utilization=self._busy / span,
            completed=completed,
            throughput=completed / span,
            mean_wait=self._wait / completed if completed else nan,
            mean_service=self._service / completed if completed else nan,
            iterations=self.iterations,
        )

    # --- live reads -------------------------------------------------------------------------------------

    def queue_length(self) -> float:
        """`queue`: jobs present, those in service included."""
        return float(self.number)

    def busy(self) -> float:
        """`busy`: jobs in service."""
        return float(self.number)

    def remaining_work(self) -> float:
        """`work`: what is left of the work of all jobs present, at this instant."""
        raise NotImplementedError

    def budget_left(self) -> float:
        """`budget_left`: only an engine has a budget."""
        return 0.0

    def estimated_rate(self) -> float:
        """`est_lambda`."""
        return self.estimates.rate()

    def estimated_load(self) -> float:
        """`est_rho`."""
        return self.estimates.load()

    def estimated_wait(self) -> float:
        """`est_wait`."""
        return self.estimates.wait


class BatchingStage(Stage):
    """A stage that forms iterations: it starts when an instant has settled (R-B-005).

    It asks its host to attend to it whenever it may have become able to; while it is idle it is looked at
    again after every event (R-B-030).
    """

    def idle(self) -> bool:
        """Whether no iteration is under way and one could be formed."""
        raise NotImplementedError

    def begin(self) -> None:
        """Form an iteration, if anything can be done, and let it end in its time."""
        raise NotImplementedError
