"""What a run leaves behind: plain columns and rows, complete enough for every report."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from serq.runtime.pricing import PriceRow
from serq.runtime.request_records import EngineRow, RequestTable
from serq.source import Diagnostic


class Column(array):  # type: ignore[type-arg]
    """Numbers, eight bytes each; equal to a list of the same numbers."""

    def __eq__(self, other: object) -> bool:
        return self.tolist() == other if isinstance(other, list) else super().__eq__(other)

    __hash__ = None


def _doubles() -> array[float]:
    return Column("d")


def _integers() -> array[int]:
    return Column("q")


@dataclass(slots=True)
class Series:
    """Samples of one observation in recording order (R-A-100); only those at or after warm-up are kept."""

    name: str
    values: array[float] = field(default_factory=_doubles)
    times: array[float] = field(default_factory=_doubles)
    sessions: array[int] = field(default_factory=_integers)
    turns: array[float] = field(default_factory=_doubles)

    def trim(self) -> None:
        """Drop a sample of which only a part was recorded: an interrupt may fall between two columns."""
        columns = (self.values, self.times, self.sessions, self.turns)
        whole = min(len(column) for column in columns)
        for column in columns:
            del column[whole:]


@dataclass(slots=True)
class StageRow:
    """Figures of one stage member over [warm-up, end] (R-B-110 to R-B-112); NaN where nothing completed."""

    name: str
    member: int
    mean_number: float
    utilization: float
    completed: int
    throughput: float
    mean_wait: float
    mean_service: float
    iterations: int


@dataclass(slots=True)
class PoolRow:
    """Figures of one pool member (R-B-113): time averages over [warm-up, end], counters of the whole run."""

    name: str
    member: int
    mean_used: float
    mean_cached: float
    mean_queue: float
    mean_holders: float
    mean_wait: float
    admissions: int
    evicted_entries: int
    evicted_units: float
    preemptions: int
    spills: int
    rejected: int
    stuck: int


@dataclass(slots=True)
class GaugeRow:
    """Figures of a gauge over [warm-up, end]: time-weighted mean, smallest and largest value."""

    name: str
    mean: float
    smallest: float
    largest: float


@dataclass(slots=True)
class ConnectorRow:
    """Figures of a connector over [warm-up, end].

    ``fetches`` of KV from another engine ended, ``failed`` of them badly; ``offloads`` to host memory were
    accepted and ``refused``, where the request was given back. ``mean_tokens`` and ``mean_time`` are those of
    fetches, from their beginning to their end; NaN where there were none.
    """

    name: str
    fetches: int
    failed: int
    mean_tokens: float
    mean_time: float
    offloads: int
    refused: int


@dataclass(slots=True)
class Records:
    """Everything a finished (or stopped) run recorded."""

    horizon: float
    end: float
    warmup: float
    seed: int
    events: int
    arrivals: int
    ended: int
    turns: int
    mean_live: float
    series: dict[str, Series] = field(default_factory=dict)
    stages: list[StageRow] = field(default_factory=list)
    pools: list[PoolRow] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    engines: list[EngineRow] = field(default_factory=list)
    """The members of `vllm` stages, in the order of declaration."""
    requests: RequestTable = field(default_factory=RequestTable)
    gauges: list[GaugeRow] = field(default_factory=list)
    connectors: list[ConnectorRow] = field(default_factory=list)
    prices: list[PriceRow] = field(default_factory=list)
    """What the steps of stages with `cost via` were made of."""
    stopped: str | None = None
    """Why the run ended before its end (``end`` is the instant it had reached); None: it finished."""
    clock_reason: str | None = None
    """Why the run was on the clock; None: it ran ahead of it (open_run)."""
