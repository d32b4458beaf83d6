"""The interface of an executor: what one step costs, operator by operator, and how good the evidence is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

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


class OperatorPrice(NamedTuple):
    """Seconds that one operator takes in a step, over all layers and calls."""

    operator: str
    seconds: float
    evidence: Evidence


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


class Executor(Protocol):
    """Prices the steps of one engine. A price depends on the step alone: not on the clock, not on history."""

    def price(self, batch: StepBatch) -> Price:
        """What a step with at least one row costs. Raises RunError for one that it cannot price."""

    def price_decodes(self, totals: DecodeTotals) -> Price | None:
        """What a step of decodes alone costs: the same, bit for bit, as :meth:`price` of its rows.

        None where the price needs the rows; then a planned run of decodes walks every step.
        """
