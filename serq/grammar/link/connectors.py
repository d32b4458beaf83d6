"""Connectors and gauges."""

from __future__ import annotations

from typing import Any

from serq.grammar import ast
from serq.grammar.link.context import Context, UnlinkableError
from serq.grammar.link.expressions import GLOBAL, Expressions, as_reference
from serq.grammar.link.settings import Settings
from serq.ir import nodes as ir
from serq.ir.engine_options import CONNECTOR_OPTIONS, EngineOption
from serq.ir.moments import Moment

_NUMBERS = {
    "offload_blocks": EngineOption(
        "offload_blocks", "count", 0, "room for offloads; 0 refuses them", "V-045", 0
    ),
    "release_after": EngineOption(
        "release_after", "number", 480.0, "seconds that blocks are kept for nobody", "S-135", 0
    ),
}


class Connectors:
    """Links connectors and gauges one at a time."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self._context = context
        self._expressions = expressions
        self._settings = Settings(context, expressions)

    def connector(self, node: ast.Unit) -> ir.Connector:
        """`connector c : transfer { over STAGE; work EXPR; … }`."""
        context = self._context
        if node.kind.text != "transfer":
            message = f"a connector is a `transfer`, not a `{node.kind.text}`"
            raise context.fail("E225", message, node.kind.place)
        context.begin_section()
        fields: dict[str, Any] = {}
        written: dict[str, ast.Setting] = {}
        for setting in self._settings.known(node.settings, CONNECTOR_OPTIONS, "a connector"):
            written[setting.name.text] = setting
            with context.attempt():
                fields[setting.name.text] = self._option(setting)
        for name in ("over", "work"):
            if name not in written:
                message = f"connector `{node.name.text}` needs `{name}`"
                context.error("E217", message, node.name.place, help=f"add `{name} …;`")
        if not fields.keys() >= {"over", "work"}:
            raise UnlinkableError
        connector = ir.Connector(node.name.text, **fields)
        for name, setting in written.items():
            context.mark(connector, setting.place, name)
        return context.mark(connector, node.name.place)

    def _option(self, setting: ast.Setting) -> Any:
        name = setting.name.text
        if name in _NUMBERS:
            return self._settings.value(setting, _NUMBERS[name])
        value = self._settings.single(setting)
        if name == "over":
            if not isinstance(value, ast.Name | ast.Reference):
                raise self._context.fail("E225", "`over` takes the name of a stage", value.place)
            return self._expressions.stage(as_reference(value), GLOBAL)
        if isinstance(value, ast.Text):
            raise self._context.fail("E225", f"`{name}` takes an expression, not a string", value.place)
        return self._expressions.link(value, self._expressions.supplied(Moment.CONNECTOR))

    def gauge(self, node: ast.Gauge) -> ir.Gauge:
        """`gauge g = e;`."""
        self._context.begin_section()
        gauge = ir.Gauge(node.name.text, self._expressions.link(node.value))
        return self._context.mark(gauge, node.name.place)

