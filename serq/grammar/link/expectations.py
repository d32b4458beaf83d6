"""`slo` and `expect`: what a program asks of its own run (design_language.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, cast

from serq.grammar import ast
from serq.grammar.link import definitions
from serq.grammar.link.context import Context, UnlinkableError
from serq.grammar.link.expressions import Expressions, as_reference
from serq.grammar.link.help import did_you_mean, which
from serq.grammar.link.scope import Parameter, Scope
from serq.ir import nodes as ir
from serq.ir.expectations import AnyExpectation, Expectation, ExpectedSamples, Objective
from serq.ir.expressions import ReportRead, ReportRow
from serq.ir.figures import FIELDS, REQUEST_LATENCIES, STATISTICS

_COMPARISONS: Final = ("<", "<=", ">", ">=")
_LISTS: Final = ("order", "values")
_OF_ROWS: Final = frozenset(field for row, fields in FIELDS.items() if row != "run" for field in fields)
"""Figures that are asked for by the name of their row."""


class Expectations:
    """Links objectives and expectations one at a time, when everything else is linked."""

    def __init__(self, context: Context, sections: Iterable[ast.Section], gauges: Iterable[ir.Gauge]) -> None:
        nodes = [node for section in sections for node in definitions.reachable(context, section.block)]
        self._context = context
        self._series = frozenset(node.series.text for node in nodes if isinstance(node, ast.Observe))
        self._sends = any(isinstance(node, ast.Send) for node in nodes)
        names: dict[ReportRow, frozenset[str]] = {
            "observation": self._series,
            "gauge": frozenset(gauge.name for gauge in gauges),
            "stage": frozenset(context.stages),
            "pool": frozenset(context.pools),
            "engine": frozenset(name for name in context.stages if _is_engine(context, name)),
        }
        self._expressions = ReportExpressions(context, names)

    # --- objectives -----------------------------------------------------------------------------------------

    def objective(self, node: ast.Objective) -> Objective:
        """`slo metric statistic < limit for class label;`."""
        context, constant = self._context, self._expressions.constant
        source = self._source(node.metric)
        if node.statistic.text not in STATISTICS:
            help_ = did_you_mean(node.statistic.text, STATISTICS)
            help_ = help_ or "there are `mean`, `p50` to `p99`, `p999`"
            message = f"there is no statistic `{node.statistic.text}`"
            raise context.fail("E226", message, node.statistic.place, help=help_)
        if node.comparison not in _COMPARISONS:
            message = f"an objective is a limit: `{node.comparison}` is none"
            help_ = f"compare with {', '.join(f'`{word}`' for word in _COMPARISONS)}"
            raise context.fail("E227", message, node.place, help=help_)
        objective = Objective(
            node.metric.text,
            source,
            node.statistic.text,
            cast(Literal["<", "<=", ">", ">="], node.comparison),
            constant(node.limit, "the limit of an objective"),
            None if node.label is None else constant(node.label, "the class of an objective"),
        )
        if node.label is not None:
            context.mark(objective, node.label.place, "label")
        context.mark(objective, node.limit.place, "limit")
        return context.mark(objective, node.place)

    def _source(self, metric: ast.Identifier) -> Literal["request", "observation"]:
        """What an objective reads: requests, where the program sends any, before observations."""
        name, context = metric.text, self._context
        if name in REQUEST_LATENCIES and self._sends:
            return "request"
        if name in self._series:
            return "observation"
        if not context.readable:
            raise UnlinkableError
        known = [*(REQUEST_LATENCIES if self._sends else ()), *self._series]
        if name in REQUEST_LATENCIES:
            message = f"`{name}` is a metric of requests, and the program sends none and observes no `{name}`"
        else:
            message = f"`{name}` is neither a metric of requests nor an observation"
        raise context.fail("E226", message, metric.place, help=which(name, known, "metric"))

    # --- expectations ---------------------------------------------------------------------------------------

    def expectation(self, node: ast.Expectation) -> AnyExpectation:
        """`expect condition within tolerance;` or `expect order(x) == [..];`."""
        if node.values is not None:
            return self._context.mark(self._samples(node, node.values), node.place)
        link = self._expressions.link
        tolerance = None if node.tolerance is None else link(node.tolerance)
        expectation = Expectation(link(node.condition), tolerance)
        if node.tolerance is not None:
            self._context.mark(expectation, node.tolerance.place, "tolerance")
        return self._context.mark(expectation, node.place)

    def _samples(self, node: ast.Expectation, values: tuple[ast.Expr, ...]) -> ExpectedSamples:
        context = self._context
        shown = node.condition
        assert isinstance(shown, ast.Binary)
        if shown.operator != "==":
            message = f"a list is compared with `==`, not with `{shown.operator}`"
            raise context.fail("E227", message, node.place)
        match shown.left:
            case ast.Call(function=called, arguments=(ast.Name() as x,)) if called.text in _LISTS:
                pass
            case _:
                message = "only the samples of an observation are compared with a list"
                help_ = "write `order(x) == […]`, exactly, or `values(x) == […]`, to 1e-9 relative"
                raise context.fail("E227", message, shown.left.place, help=help_)
        if x.text not in self._series:
            if not context.readable:
                raise UnlinkableError
            help_line = which(x.text, self._series, "observation")
            raise context.fail("E226", f"unknown observation `{x.text}`", x.place, help=help_line)
        samples = tuple(self._expressions.constant(value, "an expected sample") for value in values)
        return ExpectedSamples(x.text, samples, cast(Literal["order", "values"], called.text))


class ReportExpressions(Expressions):
    """Links the expressions of expectations, whose names and functions mean figures of the report.

    A `let` or a `def` of such a name wins.
    """

    def __init__(self, context: Context, names: Mapping[ReportRow, frozenset[str]]) -> None:
        super().__init__(context)
        self._rows = names

    def _name(self, node: ast.Name, scope: Scope) -> ir.Expr:
        taken = scope.lookup(node.text) is not None or node.text in self._context.constants
        if not taken and node.text in FIELDS["run"]:
            return ReportRead(node.text)
        if not taken and any(node.text in self._rows[row] for row in ("observation", "gauge")):
            message = f"`{node.text}` is a row of the report, and an expectation needs a figure of it"
            raise self._context.fail("E201", message, node.place, help=f"`mean({node.text})` is one")
        return super()._name(node, scope)

    def _call(self, node: ast.Call, scope: Scope) -> ir.Expr:
        name = node.function.text
        if name not in _OF_ROWS or name in self._context.definitions:
            return super()._call(node, scope)
        self._check_arity(name, len(node.arguments), 1, node.place)
        ref, inner = self._row_name(name, node.arguments[0], scope)
        row = self._row(name, ref.name)
        index = None if ref.index is None else self.link(ref.index, inner)
        return ReportRead(name, row, ref.name.text, index)

    def _row_name(self, field: str, argument: ast.Argument, scope: Scope) -> tuple[ast.Reference, Scope]:
        """The row that an argument names; a parameter of a def stands for one."""
        if not isinstance(argument, ast.Name | ast.Reference):
            message = f"`{field}` takes the name of an observation, a gauge, a pool or a stage"
            raise self._context.fail("E204", message, argument.place)
        ref = as_reference(argument)
        meaning = scope.lookup(ref.name.text)
        if not isinstance(meaning, Parameter):
            return ref, scope
        target, inner = self._row_name(field, meaning.argument, meaning.scope)
        if ref.index is None:
            return target, inner
        return ast.Reference(ref.place, target.name, ref.index), scope

    def _row(self, field: str, name: ast.Identifier) -> ReportRow:
        """The kind of row that has a figure and is called by a name."""
        context = self._context
        having: list[ReportRow] = [row for row in self._rows if field in FIELDS[row]]
        rows = [row for row in having if name.text in self._rows[row]]
        if len(rows) == 1:
            return rows[0]
        if not context.readable or name.text in context.unreadable:
            raise UnlinkableError
        if rows:
            message = f"`{field}({name.text})` could be of the {' or the '.join(rows)} `{name.text}`"
            raise context.fail("E226", message, name.place, help="give one of them another name")
        others: list[ReportRow] = [row for row in self._rows if name.text in self._rows[row]]
        if others:
            fields = [other for row in others for other in FIELDS[row]]
            message = f"{_article(others[0])} {others[0]} has no `{field}`"
            help_ = did_you_mean(field, fields) or f"it has {', '.join(f'`{other}`' for other in fields)}"
            raise context.fail("E226", message, name.place, help=help_)
        known = sorted(other for row in having for other in self._rows[row])
        message = f"`{field}({name.text})`: nothing with this figure is called `{name.text}`"
        raise context.fail("E226", message, name.place, help=which(name.text, known, "candidate"))

    def _unknown_name(self, node: ast.Name) -> UnlinkableError:
        near = did_you_mean(node.text, [*FIELDS["run"], *self._context.constants])
        if near is None or node.text in self._context.unreadable or node.text in self._context.attributes:
            return super()._unknown_name(node)
        return self._context.fail("E201", f"unknown name `{node.text}`", node.place, help=near)

    def _unknown_function(self, name: ast.Identifier) -> UnlinkableError:
        near = did_you_mean(name.text, [*_OF_ROWS, *self._context.definitions])
        if near is None or name.text in self._context.unreadable:
            return super()._unknown_function(name)
        return self._context.fail("E202", f"unknown function `{name.text}`", name.place, help=near)


def _is_engine(context: Context, stage: str) -> bool:
    node = context.stages[stage].node
    return isinstance(node, ast.Stage) and node.kind.word == "vllm"


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


