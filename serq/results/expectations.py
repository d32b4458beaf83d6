"""Expectations (`expect`): whether they hold of a finished run, and what was measured (design_language.md).

`==` is to 1e-9 relative, or to the tolerance of `within`; `!=` is its opposite. Arithmetic is that of the
language (R-A-020 to R-A-026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from typing import Any, Final

import msgspec

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.arithmetic import FUNCTIONS, truth
from serq.ir.chains import operations
from serq.ir.expectations import AnyExpectation, Expectation, ExpectedSamples
from serq.ir.expressions import ReportRead
from serq.ir.fold import OPERATORS
from serq.ir.printer import expectation, figure
from serq.results.figures import Figures
from serq.runtime.codegen.checks import aggregate_max, aggregate_min, aggregate_sum
from serq.runtime.records import Series
from serq.source import Diagnostic, Place, Severity

RELATIVE: Final = 1e-9
"""How far two figures may be apart that count as equal, relative to the larger one."""
_SHOWN: Final = 20
"""Samples of a list that a message shows."""


class Outcome(msgspec.Struct, frozen=True):
    """One expectation after the run."""

    text: str
    holds: bool | None
    """None: the run was stopped, so it says nothing."""
    measured: str
    """The figures that were read, or how the samples differ."""
    place: Place | None = None

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain data, with its place in the text where it has one."""
        out: dict[str, Any] = {"expect": self.text, "holds": self.holds, "measured": self.measured}
        if self.place is not None:
            out["file"] = self.place.source.name
            out["line"], out["column"] = self.place.source.position(self.place.span.start)
        return out

    def diagnostic(self, severity: Severity) -> Diagnostic:
        """The message about an expectation that does not hold."""
        source, span = (None, None) if self.place is None else (self.place.source, self.place.span)
        owner = self.text if self.place is None else None
        message = f"this does not hold: {self.measured}"
        return Diagnostic("expectation-failed", message, source, span, owner, severity)


def judge(
    node: AnyExpectation, figures: Figures, series: Mapping[str, Series], place: Place | None
) -> Outcome:
    """Whether an expectation holds."""
    if isinstance(node, ExpectedSamples):
        samples = series[node.series].values
        difference = _difference(node, samples)
        measured = f"{len(samples)} samples"
        if difference is not None:
            measured = f"{difference}; the samples are {_list(samples)}"
        return Outcome(expectation(node), difference is None, measured, place)
    reader = _Reader(figures)
    try:
        value = reader.holds(node)
    except (_UnansweredError, RunError) as error:
        return Outcome(expectation(node), False, str(error), place)
    parts = [f"{text} is {_number(read)}" for text, read in reader.readings.items()]
    if value not in (0.0, 1.0):
        parts.append(f"the condition is {_number(value)}, neither 0 nor 1")
    return Outcome(expectation(node), value == 1.0, ", ".join(parts) or "it reads no figure", place)


def not_judged(node: AnyExpectation, place: Place | None) -> Outcome:
    """An expectation about a run that was stopped."""
    return Outcome(expectation(node), None, "the run was stopped", place)


def same(left: float, right: float, tolerance: float | None = None) -> bool:
    """Whether two figures count as equal: within ``tolerance``, or 1e-9 of the larger one."""
    if left == right:
        return True
    if not (isfinite(left) and isfinite(right)):
        return False
    return abs(left - right) <= (RELATIVE * max(abs(left), abs(right)) if tolerance is None else tolerance)


def _difference(node: ExpectedSamples, samples: Sequence[float]) -> str | None:
    """What is different from the list, None where nothing is."""
    if len(samples) != len(node.samples):
        return f"there are {len(samples)} samples, not {len(node.samples)}"
    for place, (found, wanted) in enumerate(zip_longest(samples, node.samples), 1):
        if found != wanted and (node.comparison == "order" or not same(found, wanted)):
            return f"sample {place} is {_number(found)}, not {_number(wanted)}"
    return None


def _list(samples: Sequence[float]) -> str:
    shown = [_number(sample) for sample in samples[:_SHOWN]]
    return f"[{', '.join(shown)}{', …' if len(samples) > _SHOWN else ''}]"


def _number(value: float) -> str:
    return f"{value:.12g}"


Locals = Mapping[str, float]


class _UnansweredError(Exception):
    """A figure was asked for that the report does not have."""


class _Reader:
    """Evaluates one condition and remembers the figures that it read."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self.readings: dict[str, float] = {}

    def holds(self, node: Expectation) -> float:
        """The value of the condition: 1 where it holds."""
        condition = node.condition
        if node.tolerance is None or not isinstance(condition, nodes.Binary):
            return self.value(condition, {})
        left, right = self.value(condition.left, {}), self.value(condition.right, {})
        return float(same(left, right, self.value(node.tolerance, {})))

    def value(self, node: nodes.Expr, bound: Locals) -> float:
        """The value of an expression; ``bound`` are the indices of aggregates around it."""
        while isinstance(node, nodes.Conditional):
            node = node.then if truth(self.value(node.condition, bound)) else node.otherwise
        match node:
            case nodes.Number():
                return node.value
            case nodes.Local():
                return bound[node.name]
            case nodes.Unary():
                operand = self.value(node.operand, bound)
                return -operand if node.operator == "-" else float(not truth(operand))
            case nodes.Binary():
                return self._binary(node, bound)
            case nodes.Call():
                return float(FUNCTIONS[node.function](*(self.value(a, bound) for a in node.arguments)))
            case nodes.Aggregate(operator=operator, variable=variable, body=body):
                count = self.value(node.count, bound)
                return _AGGREGATES[operator](count, lambda j: self.value(body, {**bound, variable: j}))
            case ReportRead():
                return self._read(node, bound)
            case _:
                raise AssertionError(type(node))

    def _binary(self, node: nodes.Binary, bound: Locals) -> float:
        chain = operations(node)
        value = self.value(chain[0].left, bound)
        for operation in chain:
            if operation.operator in ("&&", "||"):
                decided = truth(value) == (operation.operator == "||")
                value = float(truth(value if decided else self.value(operation.right, bound)))
                continue
            right = self.value(operation.right, bound)
            if operation.operator in ("==", "!="):
                value = float(same(value, right) == (operation.operator == "=="))
            else:
                value = float(OPERATORS[operation.operator](value, right))
        return value

    def _read(self, node: ReportRead, bound: Locals) -> float:
        member = 0.0 if node.index is None else self.value(node.index, bound)
        shown = figure(node) if node.index is None else f"{node.field}({node.name}[{_number(member)}])"
        try:
            value = self._figures.read(node, int(member) if member.is_integer() else -1)
        except KeyError:
            raise _UnansweredError(f"there is no {shown}") from None
        self.readings[shown] = value
        return value


_AGGREGATES: Final = {"sum": aggregate_sum, "max": aggregate_max, "min": aggregate_min}
