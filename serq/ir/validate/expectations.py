"""Objectives and expectations: what they read exists, and they can be met (design_language.md)."""

from __future__ import annotations

import math

from serq.ir.expectations import AnyExpectation, Expectation, ExpectedSamples, Objective
from serq.ir.expressions import Binary, ReportRead
from serq.ir.figures import GOODPUT, REQUEST_LATENCIES, STATISTICS
from serq.ir.fold import constant
from serq.ir.moments import Moment
from serq.ir.printer import number
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings
from serq.ir.walk import descendants


class Expectations:
    """Checks what a program asks of its own run."""

    def __init__(self, index: Index, findings: Findings, expressions: Expressions) -> None:
        self._index = index
        self._findings = findings
        self._expressions = expressions

    def check(self) -> None:
        """All objectives, then all expectations."""
        program = self._index.program
        for place, objective in enumerate(program.objectives):
            with self._findings.inside(f"slo {place + 1}"):
                self._objective(objective)
        for place, expectation in enumerate(program.expectations):
            with self._findings.inside(f"expect {place + 1}"):
                self._expectation(expectation)

    def _objective(self, node: Objective) -> None:
        error = self._findings.error
        if node.source == "observation":
            self._series(node.metric, node)
            if node.label is not None:
                message = f"`for class`: the samples of observation `{node.metric}` have no class"
                help_ = f"requests have one: {', '.join(f'`{metric}`' for metric in REQUEST_LATENCIES)}"
                error("E446", message, node, "label", help=help_)
        elif node.metric not in REQUEST_LATENCIES:
            error("E401", f"requests have no metric `{node.metric}`", node)
        if node.statistic not in STATISTICS:
            error("E401", f"there is no statistic `{node.statistic}`", node)
        if math.isnan(node.limit):
            error("E446", "the limit of an objective is not a number (NaN)", node, "limit")

    def _expectation(self, node: AnyExpectation) -> None:
        if isinstance(node, ExpectedSamples):
            self._series(node.series, node)
            return
        self._expressions.check(node.condition, Moment.EXPECT)
        no_limits = not self._index.program.objectives
        for inner in descendants(node):
            if no_limits and isinstance(inner, ReportRead) and inner.field in GOODPUT:
                message = f"`{inner.field}` counts requests within the limits of an `slo`, and there is none"
                self._findings.error("E446", message, inner, whole=True)
        self._tolerance(node)

    def _tolerance(self, node: Expectation) -> None:
        if node.tolerance is None:
            return
        self._expressions.check(node.tolerance, Moment.EXPECT)
        tolerance = constant(node.tolerance)
        if tolerance is not None and not 0 <= tolerance < math.inf:
            message = f"a tolerance is finite and not negative, not {number(tolerance)}"
            self._findings.error("E446", message, node, "tolerance")
        if not isinstance(node.condition, Binary) or node.condition.operator != "==":
            message = "`within` is the tolerance of an `==`, and this expectation is none"
            self._findings.error("E446", message, node, "tolerance")

    def _series(self, name: str, node: Objective | ExpectedSamples) -> None:
        if name not in self._index.series:
            self._findings.error("E401", f"unknown observation `{name}`", node, whole=True)
