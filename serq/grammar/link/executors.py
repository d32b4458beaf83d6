"""`executor e : kind { … }` and `cost via e;` (docs/executors.md)."""

from __future__ import annotations

from serq.grammar import ast
from serq.grammar.link.context import Context, UnlinkableError
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.help import did_you_mean, which
from serq.grammar.link.settings import Settings
from serq.ir import nodes as ir
from serq.ir.executor_options import EXECUTOR_KINDS, ExecutorKind
from serq.ir.serving import ExecutorOption


class Executors:
    """Links executors one at a time."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self._context = context
        self._settings = Settings(context, expressions, refused={})

    def executor(self, node: ast.Unit) -> ir.Executor:
        """An executor, its options typed; what is not written is left to the defaults of its kind."""
        context = self._context
        context.begin_section()
        kind = self._kind(node)
        options: list[ExecutorOption] = []
        written: set[str] = set()
        what = f"an executor of kind `{kind.name}`"
        for setting in self._settings.known(node.settings, kind.options.keys(), what):
            written.add(setting.name.text)
            with context.attempt():
                value = self._settings.value(setting, kind.options[setting.name.text])
                options.append(context.mark(ExecutorOption(setting.name.text, value), setting.place))
        self._require(node, kind, written)
        return context.mark(ir.Executor(node.name.text, kind.name, tuple(options)), node.name.place)

    def _kind(self, node: ast.Unit) -> ExecutorKind:
        kind = EXECUTOR_KINDS.get(node.kind.text)
        if kind is None:
            kinds = ", ".join(f"`{name}`" for name in EXECUTOR_KINDS)
            message = f"an executor is one of {kinds}, not `{node.kind.text}`"
            help_ = did_you_mean(node.kind.text, EXECUTOR_KINDS)
            raise self._context.fail("E225", message, node.kind.place, help=help_)
        return kind

    def _require(self, node: ast.Unit, kind: ExecutorKind, written: set[str]) -> None:
        for option in kind.options.values() if self._context.readable else ():
            if option.required and option.name not in written:
                message = f"executor `{node.name.text}` needs `{option.name}`: {option.meaning}"
                value = '"…"' if option.type == "text" else "…"
                self._context.error("E217", message, node.name.place, help=f"add `{option.name} {value};`")


def cost_via(context: Context, option: ast.Option) -> ir.Via:
    """`cost via NAME`."""
    (name,) = option.names
    if name.text not in context.executors:
        if name.text in context.unreadable or not context.readable:
            raise UnlinkableError
        help_ = which(name.text, sorted(context.executors), "executor")
        if help_ is None:
            help_ = f"declare it: `executor {name.text} : KIND {{ … }}`"
        raise context.fail("E209", f"unknown executor `{name.text}`", name.place, help=help_)
    return context.mark(ir.Via(name.text), option.place)
