"""Options under the names of what is modelled: which there are, what their values are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from serq.grammar import ast
from serq.grammar.link.context import Context, UnlinkableError
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.help import did_you_mean
from serq.ir import nodes as ir
from serq.ir.engine_options import EngineOption, Table
from serq.ir.fold import constant
from serq.ir.moments import Moment
from serq.ir.nearest import closest
from serq.ir.vllm_flags import REFUSED_IN_STAGE

SWITCHES = {"true": True, "false": False}


class Settings:
    """Reads options one after another; ``refused`` are known words that cannot be meant, and why."""

    def __init__(
        self, context: Context, expressions: Expressions, refused: Mapping[str, str] = REFUSED_IN_STAGE
    ) -> None:
        self._refused = refused
        self._context = context
        self._expressions = expressions

    def known(
        self, settings: tuple[ast.Setting, ...], names: Collection[str], what: str, many: str = ""
    ) -> Iterator[ast.Setting]:
        """The options that exist; ``many`` may stand several times, any other once."""
        seen: set[str] = set()
        for setting in settings:
            name = setting.name.text
            with self._context.attempt():
                if name not in names:
                    raise self._unknown(setting.name, names, what)
                if name in seen and name != many:
                    raise self._context.fail("E223", f"`{name}` is given twice", setting.name.place)
                seen.add(name)
                yield setting

    def _unknown(self, name: ast.Identifier, names: Collection[str], what: str) -> UnlinkableError:
        fail = self._context.fail
        if name.text in self._refused:
            message = f"{what} has no option `{name.text}`, which vLLM has"
            return fail("E224", message, name.place, help=self._refused[name.text])
        near = closest(name.text, {*names, *self._refused})
        message = f"{what} has no option `{name.text}`"
        if near is not None and near in self._refused:
            help_ = f"did you mean vLLM's `{near}`? {self._refused[near]}"
        else:
            help_ = did_you_mean(name.text, names) or f"there are {', '.join(f'`{n}`' for n in names)}"
        return fail("E222", message, name.place, help=help_)

    def fields(self, settings: tuple[ast.Setting, ...], table: Table, what: str) -> dict[str, Any]:
        """The values of options that all stand in one table."""
        found: dict[str, Any] = {}
        for setting in self.known(settings, table.keys(), what):
            with self._context.attempt():
                found[setting.name.text] = self.value(setting, table[setting.name.text])
        return found

    def value(self, setting: ast.Setting, option: EngineOption) -> Any:
        """The value of one option, of the type that the table says."""
        if option.type == "numbers":
            return tuple(self._number(node, option) for node in self._plain(setting))
        if option.type == "counts":
            return tuple(self._whole(node, option) for node in self._plain(setting))
        node = self.single(setting)
        match option.type:
            case "text":
                return self._text(node, option)
            case "rule":
                return self._rule(node, option)
            case "quantity":
                return self._quantity(node, option)
            case "word":
                return self._word(node, option)
            case "switch":
                return self._switch(node, option)
            case "name":
                return self.name(node, f"`{option.name}` takes a name")
            case "count":
                return self._whole(node, option)
            case _:
                return self._number(node, option)

    def single(self, setting: ast.Setting) -> ast.Argument | ast.Text:
        """The one value of an option."""
        values = self._plain(setting)
        if len(values) != 1:
            message = f"`{setting.name.text}` takes one value, not {len(values)}"
            raise self._context.fail("E225", message, setting.place)
        return values[0]

    def _plain(self, setting: ast.Setting) -> tuple[ast.Argument | ast.Text, ...]:
        if setting.keys or setting.settings is not None:
            form = "by (…)" if setting.keys else "{ … }"
            raise self._context.fail("E225", f"`{setting.name.text}` takes no `{form}`", setting.place)
        return setting.values

    def name(self, node: ast.Argument | ast.Text, message: str) -> str:
        """A bare name."""
        if not isinstance(node, ast.Name):
            raise self._context.fail("E225", message, node.place)
        return node.text

    def _text(self, node: ast.Argument | ast.Text, option: EngineOption) -> str:
        if not isinstance(node, ast.Text):
            message = f"`{option.name}` takes a string, and `{node.place.text}` is none"
            help_ = f'write `{option.name} "{node.place.text}";`'
            raise self._context.fail("E225", message, node.place, help=help_)
        return node.text

    def _rule(self, node: ast.Argument | ast.Text, option: EngineOption) -> str | ir.Expr:
        if isinstance(node, ast.Text | ast.Reference):
            words = ", ".join(f"`{word}`" for word in option.words)
            message = f"`{option.name}` is one of {words}, or an expression, not `{node.place.text}`"
            raise self._context.fail("E225", message, node.place)
        if isinstance(node, ast.Name) and node.text in option.words and node.text not in self._context.lets:
            return node.text
        return self._expressions.link(node, self._expressions.supplied(Moment.EXECUTOR))

    def _quantity(self, node: ast.Argument | ast.Text, option: EngineOption) -> float | ir.Expr:
        if not isinstance(node, ast.Text | ast.Reference):
            expression = self._expressions.link(node, self._expressions.supplied(Moment.EXECUTOR))
            if constant(expression) is None:
                return expression
        return self._number(node, option)

    def _word(self, node: ast.Argument | ast.Text, option: EngineOption) -> str:
        words = ", ".join(f"`{word}`" for word in option.words)
        word = self.name(node, f"`{option.name}` is one of {words}")
        if word not in option.words:
            message = f"`{option.name}` is one of {words}, not `{word}`"
            help_ = did_you_mean(word, option.words)
            raise self._context.fail("E225", message, node.place, help=help_)
        return word

    def _switch(self, node: ast.Argument | ast.Text, option: EngineOption) -> bool:
        if isinstance(node, ast.Name) and node.text in SWITCHES and node.text not in self._context.lets:
            return SWITCHES[node.text]
        value = self._number(node, option)
        if value not in (0.0, 1.0):
            message = f"`{option.name}` is `true` or `false`, not {value:g}"
            raise self._context.fail("E225", message, node.place)
        return bool(value)

    def _whole(self, node: ast.Argument | ast.Text, option: EngineOption) -> int:
        value = self._number(node, option)
        if not (abs(value) < 2**53 and value == int(value)):
            message = f"`{option.name}` is a whole number, not {value:g}"
            raise self._context.fail("E225", message, node.place)
        return int(value)

    def _number(self, node: ast.Argument | ast.Text, option: EngineOption) -> float:
        if isinstance(node, ast.Text | ast.Reference):
            what = "a string" if isinstance(node, ast.Text) else f"`{node.place.text}`"
            message = f"`{option.name}` takes a number, and {what} is none"
            raise self._context.fail("E225", message, node.place)
        value = self._expressions.constant(node, f"`{option.name}`")
        fault = option.fault(value)
        if fault is not None:
            message = f"`{option.name}` must be {fault}, not {value:g}"
            raise self._context.fail("E433", message, node.place)
        return value
