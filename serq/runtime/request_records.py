"""What `vllm` stages leave behind: columns of requests and steps, and the figures of every engine."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from math import nan
from struct import pack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from serq.runtime.serving.hybrid_memory import MemoryRow
    from serq.runtime.serving.layouts import StepLayoutEngine
    from serq.runtime.step_rows import StepRows

OptionValue = int | float | bool | str | None
Option = tuple[str, OptionValue]
"""An option under its upstream name and the value it was resolved to; None: not set."""

FINISH_REASONS: Final = ("", "stop", "length", "abort", "error", "repetition", "recomputed", "rejected")
"""How requests end, in upstream's words where it has one; the empty one: it had not ended."""


def _doubles() -> array[float]:
    return array("d")


def _integers() -> array[int]:
    return array("q")


def add_all(column: array[float] | array[int], values: Sequence[float]) -> None:
    """Append ``values`` to ``column``, all at once: an array takes numbers one by one at twice the cost."""
    column.frombytes(pack(f"{len(values)}{column.typecode}", *values))


@dataclass(slots=True)
class RequestTable:
    """One entry a request, in the order of sending; times in the unit of the program, NaN: it never came.

    ``engine`` is a place in ``Records.engines``. ``first_step`` and ``last_step`` are places in that engine's
    :class:`StepTable`: the steps that brought its first and its last token, -1 for none.
    """

    session: array[int] = field(default_factory=_integers)
    turn: array[int] = field(default_factory=_integers)
    handle: list[str] = field(default_factory=list)
    engine: array[int] = field(default_factory=_integers)
    label: array[float] = field(default_factory=_doubles)
    """The `class` of the request; NaN where the program gives none."""
    sent: array[float] = field(default_factory=_doubles)
    queued: array[float] = field(default_factory=_doubles)
    """When the engine took it in: between two steps."""
    scheduled: array[float] = field(default_factory=_doubles)
    """When the step was formed in which it was first admitted."""
    first_token: array[float] = field(default_factory=_doubles)
    last_token: array[float] = field(default_factory=_doubles)
    finish: array[float] = field(default_factory=_doubles)
    prompt_tokens: array[int] = field(default_factory=_integers)
    cached_tokens: array[int] = field(default_factory=_integers)
    fetched_tokens: array[int] = field(default_factory=_integers)
    """Those fetched from another engine; a load that failed is counted, too."""
    generated: array[int] = field(default_factory=_integers)
    deliveries: array[int] = field(default_factory=_integers)
    """Steps that brought tokens."""
    preemptions: array[int] = field(default_factory=_integers)
    finish_reason: array[int] = field(default_factory=_integers)
    """A place in :data:`FINISH_REASONS`."""
    first_step: array[int] = field(default_factory=_integers)
    last_step: array[int] = field(default_factory=_integers)
    handed_over: int = 0
    """Requests ahead of the first entry, which a sink has taken away."""

    def __len__(self) -> int:
        return len(self.sent)

    def over(self) -> int:
        """How many entries at the begin nothing will change any more: their requests have ended."""
        return self.finish_reason.index(0) if 0 in self.finish_reason else len(self)

    def take(self, rows: int) -> dict[str, Sequence[Any]]:
        """The first ``rows`` entries by column; the table goes on without them."""
        self.handed_over += rows
        return _take(self, REQUEST_COLUMNS, rows)

    def open(
        self, session: int, turn: int, handle: str, engine: int, label: float, sent: float, prompt_tokens: int
    ) -> int:
        """Append a request that was just sent; its number."""
        self.session.append(session)
        self.turn.append(turn)
        self.handle.append(handle)
        self.engine.append(engine)
        self.label.append(label)
        self.sent.append(sent)
        self.queued.append(nan)
        self.scheduled.append(nan)
        self.first_token.append(nan)
        self.last_token.append(nan)
        self.finish.append(nan)
        self.prompt_tokens.append(prompt_tokens)
        self.cached_tokens.append(0)
        self.fetched_tokens.append(0)
        self.generated.append(0)
        self.deliveries.append(0)
        self.preemptions.append(0)
        self.finish_reason.append(0)
        self.first_step.append(-1)
        self.last_step.append(-1)
        return self.handed_over + len(self.sent) - 1


@dataclass(slots=True)
class StepTable:
    """One entry a step with tokens that ended, in order.

    ``formed`` is when it was decided, ``start`` and ``end`` are when the device ran it.

    ``scheduled`` requests got ``tokens`` tokens, ``prefill_tokens`` of them not as decodes; ``running``,
    ``waiting`` and ``free_blocks`` are those after it was formed; ``preempted`` requests gave way to it.
    """

    formed: array[float] = field(default_factory=_doubles)
    start: array[float] = field(default_factory=_doubles)
    end: array[float] = field(default_factory=_doubles)
    tokens: array[int] = field(default_factory=_integers)
    scheduled: array[int] = field(default_factory=_integers)
    prefill_tokens: array[int] = field(default_factory=_integers)
    running: array[int] = field(default_factory=_integers)
    waiting: array[int] = field(default_factory=_integers)
    free_blocks: array[int] = field(default_factory=_integers)
    preempted: array[int] = field(default_factory=_integers)
    handed_over: int = 0
    """Steps ahead of the first entry, which a sink has taken away."""

    def __len__(self) -> int:
        return len(self.end)

    @property
    def count(self) -> int:
        """How many steps there were, those that were taken away included."""
        return self.handed_over + len(self.end)

    def take(self, rows: int) -> dict[str, Sequence[Any]]:
        """The first ``rows`` entries by column; the table goes on without them."""
        self.handed_over += rows
        return _take(self, STEP_COLUMNS, rows)


@dataclass(slots=True)
class QueueTable:
    """One entry a stay of a request in a lane of the waiting queue, in the order in which they ended.

    ``request`` is a place among the requests of the run, ``step`` that of the step formed at ``left``, which
    admitted it if that is the ``outcome``; ``preemptions`` are those that it had had by then. A stay that had
    not ended has no ``left`` (NaN), no step (-1) and no outcome.
    """

    request: array[int] = field(default_factory=_integers)
    lane: list[str] = field(default_factory=list)
    entered: array[float] = field(default_factory=_doubles)
    left: array[float] = field(default_factory=_doubles)
    outcome: list[str] = field(default_factory=list)
    step: array[int] = field(default_factory=_integers)
    preemptions: array[int] = field(default_factory=_integers)

    def __len__(self) -> int:
        return len(self.preemptions)

    def add(
        self, request: int, lane: str, entered: float, left: float, outcome: str, step: int, preemptions: int
    ) -> None:
        """Append a stay."""
        self.request.append(request)
        self.lane.append(lane)
        self.entered.append(entered)
        self.left.append(left)
        self.outcome.append(outcome)
        self.step.append(step)
        self.preemptions.append(preemptions)

    def copy(self) -> QueueTable:
        """The same entries in columns of their own."""
        return QueueTable(*(getattr(self, name)[:] for name in QUEUE_COLUMNS))

    def take(self, rows: int) -> dict[str, Sequence[Any]]:
        """The first ``rows`` entries by column; the table goes on without them."""
        return _take(self, QUEUE_COLUMNS, rows)


@dataclass(slots=True)
class PreemptionTable:
    """One entry a preemption, in the order in which they were over.

    While step number ``step`` was formed, at ``time``, a request lost ``lost_tokens`` computed ones because
    ``needed_by`` needed blocks (-1: nobody). It was admitted again at ``resumed``, and ``recovered`` with its
    next token; NaN: not before it was preempted again, ended, or the run was over.
    """

    time: array[float] = field(default_factory=_doubles)
    step: array[int] = field(default_factory=_integers)
    request: array[int] = field(default_factory=_integers)
    lost_tokens: array[int] = field(default_factory=_integers)
    needed_by: array[int] = field(default_factory=_integers)
    resumed: array[float] = field(default_factory=_doubles)
    recovered: array[float] = field(default_factory=_doubles)

    def __len__(self) -> int:
        return len(self.recovered)

    def copy(self) -> PreemptionTable:
        """The same entries in columns of their own."""
        return PreemptionTable(*(getattr(self, name)[:] for name in PREEMPTION_COLUMNS))

    def take(self, rows: int) -> dict[str, Sequence[Any]]:
        """The first ``rows`` entries by column; the table goes on without them."""
        return _take(self, PREEMPTION_COLUMNS, rows)


RecordTable = RequestTable | StepTable | QueueTable | PreemptionTable


def trim(table: RecordTable, columns: Sequence[str]) -> None:
    """Drop an entry of which only a part was recorded: an interrupt may fall between two columns."""
    whole = min(len(getattr(table, name)) for name in columns)
    for name in columns:
        del getattr(table, name)[whole:]


QUEUE_COLUMNS: Final = tuple(entry.name for entry in fields(QueueTable))
PREEMPTION_COLUMNS: Final = tuple(entry.name for entry in fields(PreemptionTable))
REQUEST_COLUMNS: Final = tuple(entry.name for entry in fields(RequestTable) if entry.name != "handed_over")
STEP_COLUMNS: Final = tuple(entry.name for entry in fields(StepTable) if entry.name != "handed_over")


def _take(table: RecordTable, columns: Iterable[str], rows: int) -> dict[str, Sequence[Any]]:
    out = {}
    for name in columns:
        column = getattr(table, name)
        out[name] = column[:rows]
        del column[:rows]
    return out


@dataclass(slots=True)
class EngineRow:
    """One member of a `vllm` stage: its options as resolved, and its figures over [warm-up, end].

    ``prefix_hit_rate`` is the share of the prompt tokens of first admissions that was cached,
    ``mean_kv_usage`` the time-weighted share of the blocks in use; NaN where there was nothing to divide by.
    """

    name: str
    member: int
    options: tuple[Option, ...]
    steps: int
    tokens: int
    preemptions: int
    prefix_hit_rate: float
    mean_kv_usage: float
    table: StepTable
    rows: StepRows | None = None
    """The rows of every step of ``table``, where the run was asked for them."""
    memory: MemoryRow | None = None
    """What is in the blocks of a model with recurrent states."""
    dummy_steps: int = 0
    """Steps of its data-parallel group in which it had nothing to compute."""
    planned_steps: int = 0
    """Steps of the whole run that were planned ahead; they differ in nothing else."""
    walked_steps: tuple[tuple[str, int], ...] = ()
    """(Reason, steps) of those that were formed one by one, the most frequent first."""
    queue: QueueTable = field(default_factory=QueueTable)
    """Who waited in which lane."""
    victims: PreemptionTable = field(default_factory=PreemptionTable)
    """Who was preempted, for whom, and what that cost."""
    layout: StepLayoutEngine | None = None
    """What lays them out on the device; None where no rows were asked for."""
