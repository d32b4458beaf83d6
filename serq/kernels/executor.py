"""The interface of an executor: what one step costs, operator by operator, and how good the evidence is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from serq.kernels.step_batch import StepBatch


class Evidence(Enum):
    """Where a price comes from, from the best evidence to the weakest."""

    MEASURED = "measured"
    """Read at a measured point."""
    INTERPOLATED = "interpolated"
    """Between measured points."""
    FITTED = "fitted"
    """From a model fitted to measurements, inside their range."""
    EXTRAPOLATED = "extrapolated"
    """Outside the measured range."""
    ASSUMED = "assumed"
    """From a datasheet, an efficiency or a number that the program states."""


class OutsideRange(NamedTuple):
    """A price beyond what was measured: ``value`` on a dimension measured from ``low`` to ``high``."""

    dimension: str
    value: float
    low: float
    high: float


class OperatorPrice(NamedTuple):
    """Seconds that one operator takes in a step, over all layers and calls.

    ``outside`` names the dimensions on which the step lies outside the measured range; a price with any is
    ``EXTRAPOLATED``, and the report says so.
    """

    operator: str
    seconds: float
    evidence: Evidence
    outside: tuple[OutsideRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds that a step takes and what they are made of; the operators add up to them, left to right."""

    seconds: float
    operators: tuple[OperatorPrice, ...]

    @classmethod
    def of(cls, operators: tuple[OperatorPrice, ...]) -> Price:
        """The price of operators that run one after another."""
        seconds = 0.0
        for operator in operators:
            seconds += operator.seconds
        return cls(seconds, operators)


class DecodeTotals(NamedTuple):
    """A step of decodes alone, one token each, by what does not need its rows.

    ``context`` is the sum of computed tokens over the ``decoders`` rows, ``smallest`` and ``largest`` its
    extremes.
    """

    decoders: int
    context: int
    smallest: int
    largest: int


class BatchTotals(NamedTuple):
    """A step by its totals alone: all that a `step` stage knows, and what rules of an executor read.

    Tokens may be fractions. ``scheduled`` requests have ``tokens`` tokens, ``prefilled`` of them not as
    decodes; ``decoders`` decode. ``context_decode`` and ``context_prefill`` are tokens computed before (at a
    `step` stage: units of its memory that they hold); ``attention`` is the sum over prefills of
    ``query * (computed + query / 2)`` (R-B-034).
    """

    tokens: float
    prefilled: float
    scheduled: float
    decoders: float
    context_decode: float
    context_prefill: float
    attention: float

    @classmethod
    def of(cls, batch: StepBatch) -> BatchTotals:
        """The totals of a step with rows."""
        return cls(
            float(batch.tokens),
            float(batch.prefilled),
            float(len(batch.rows)),
            float(batch.decoders),
            float(batch.context_decode),
            float(batch.context_prefill),
            float(batch.attention),
        )

    @classmethod
    def of_decodes(cls, totals: DecodeTotals) -> BatchTotals:
        """The totals of a step of decodes alone: those of its rows."""
        decoders = float(totals.decoders)
        return cls(decoders, 0.0, decoders, decoders, float(totals.context), 0.0, 0.0)


class Executor(Protocol):
    """Prices the steps of one engine. A price depends on the step alone: not on the clock, not on history."""

    def price(self, batch: StepBatch) -> Price:
        """What a step with at least one row costs. Raises RunError for one that it cannot price."""

    def price_decodes(self, totals: DecodeTotals) -> Price | None:
        """What a step of decodes alone costs: the same, bit for bit, as :meth:`price` of its rows.

        None where the price needs the rows; then a planned run of decodes walks every step.
        """


@runtime_checkable
class TotalsExecutor(Executor, Protocol):
    """An executor that can also price a step of which only totals are known, as at a `step` stage."""

    def price_totals(self, totals: BatchTotals) -> Price:
        """What a step costs of which nothing but its totals is known."""
