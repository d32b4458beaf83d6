"""`stage S : vllm { … }`: the options of an engine (design_language.md, S-002 to S-004)."""

from __future__ import annotations

from typing import Any

from serq.grammar import ast
from serq.grammar.link.context import Context, UnlinkableError
from serq.grammar.link.executors import cost_via
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.help import did_you_mean
from serq.grammar.link.settings import Settings
from serq.ir import nodes as ir
from serq.ir.engine_options import (
    ENGINE_OPTIONS,
    GROUP_KINDS,
    GROUP_OPTIONS,
    LAYOUT_OPTIONS,
    OPTION_FAMILIES,
    SCHEDULER_OPTIONS,
    SPECULATIVE_METHODS,
    SPECULATIVE_OPTIONS,
    WAITING_OPTIONS,
)
from serq.ir.moments import Moment
from serq.ir.serving import KVCacheGroup, Layout, SchedulerOption, Speculative, Waiting, WaitingOption

_NAMES = (*ENGINE_OPTIONS, *OPTION_FAMILIES)
_BLOCKED = {"group": "`group KIND { … }`", "speculative": "`speculative METHOD { … }`"}


class Engines:
    """Links engines one at a time."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self._context = context
        self._expressions = expressions
        self._settings = Settings(context, expressions)

    def vllm(self, node: ast.Stage) -> ir.Vllm:
        """An engine, its options typed; what is not written is left to vLLM's defaults."""
        fields: dict[str, Any] = {}
        parts: dict[str, ast.Node] = {}
        with self._context.attempt():
            fields["cost"], parts["cost"] = self._cost(node), node.kind.options[0]
        groups: list[KVCacheGroup] = []
        for setting in self._settings.known(node.kind.settings, _NAMES, "a vllm stage", many="group"):
            with self._context.attempt():
                if setting.name.text == "group":
                    groups.append(self._group(setting))
                    continue
                parts[setting.name.text] = setting.values[0] if len(setting.values) == 1 else setting
                if setting.name.text == "scheduler":
                    fields |= self._scheduler(setting)
                else:
                    fields[setting.name.text] = self._option(setting)
        self._require(node, parts)
        if not fields.keys() >= {"cost", "max_model_len"}:
            raise UnlinkableError
        fields.setdefault("num_gpu_blocks", None)
        engine = ir.Vllm(**fields, groups=tuple(groups))
        for name, part in parts.items():
            self._context.mark(engine, part.place, name)
        return engine

    def _require(self, node: ast.Stage, parts: dict[str, ast.Node]) -> None:
        required = [("cost", "what a step takes")]
        required += [(option.name, option.meaning) for option in ENGINE_OPTIONS.values() if option.required]
        if all(option.word != "cost via" for option in node.kind.options):
            required.append(("num_gpu_blocks", "blocks of the KV cache"))
        written = {setting.name.text for setting in node.kind.settings}
        for name, meaning in required if self._context.readable else ():
            if name not in parts and name not in written and not (name == "cost" and node.kind.options):
                message = f"stage `{node.name.text}` needs `{name}`: {meaning}"
                self._context.error("E217", message, node.name.place, help=f"add `{name} …;`")

    def _cost(self, node: ast.Stage) -> ir.Expr | ir.Via:
        for option in node.kind.options[1:]:
            self._context.error("E223", "`cost` is given twice", option.place)
        if not node.kind.options:
            raise UnlinkableError
        first = node.kind.options[0]
        if first.word == "cost via":
            return cost_via(self._context, first)
        return self._expressions.link(first.values[0], self._expressions.supplied(Moment.ENGINE_COST))

    def _option(self, setting: ast.Setting) -> Any:
        match setting.name.text:
            case "speculative":
                return self._speculative(setting)
            case "waiting":
                return self._waiting(setting)
            case "layout":
                return self._layout(setting)
            case name:
                return self._settings.value(setting, ENGINE_OPTIONS[name])

    def _kind(self, setting: ast.Setting, kinds: tuple[str, ...], what: str) -> str:
        """The word behind `group`, `speculative` or `waiting`."""
        word = setting.kind
        if word is None and len(setting.values) == 1 and isinstance(setting.values[0], ast.Name):
            word = ast.Identifier(setting.values[0].place, setting.values[0].text)
        choices = ", ".join(f"`{kind}`" for kind in kinds)
        if word is None:
            raise self._context.fail("E225", f"{what} is one of {choices}", setting.place)
        if word.text not in kinds:
            message = f"{what} is one of {choices}, not `{word.text}`"
            help_ = did_you_mean(word.text, kinds)
            raise self._context.fail("E225", message, word.place, help=help_)
        return word.text

    # --- KV cache groups (S-110 to S-129) ---

    def _group(self, setting: ast.Setting) -> KVCacheGroup:
        self._needs_block(setting)
        kind = self._kind(setting, tuple(GROUP_KINDS), "a KV cache group")
        table = {name: GROUP_OPTIONS[name] for name in GROUP_KINDS[kind]}
        fields = self._settings.fields(setting.settings or (), table, f"a `{kind}` group")
        return self._context.mark(KVCacheGroup(kind, **fields), setting.place)  # type: ignore[arg-type]

    def _needs_block(self, setting: ast.Setting) -> None:
        if setting.settings is None:
            form = _BLOCKED[setting.name.text]
            raise self._context.fail("E225", f"this option is written {form}", setting.place)

    # --- speculation (S-101, S-102) ---

    def _speculative(self, setting: ast.Setting) -> Speculative:
        self._needs_block(setting)
        method = self._kind(setting, SPECULATIVE_METHODS, "a method of speculation")
        fields = self._settings.fields(setting.settings or (), SPECULATIVE_OPTIONS, "`speculative`")
        if "k" not in fields:
            if all(inner.name.text != "k" for inner in setting.settings or ()):
                message = f"`speculative {method}` needs `k`: {SPECULATIVE_OPTIONS['k'].meaning}"
                self._context.error("E217", message, setting.place, help="add `k …;`")
            raise UnlinkableError
        if "per_batch_size" in fields:
            fields["per_batch_size"] = self._ranges(fields["per_batch_size"], setting)
        return self._context.mark(Speculative(method, **fields), setting.place)

    def _ranges(self, numbers: tuple[float, ...], setting: ast.Setting) -> tuple[tuple[int, int, int], ...]:
        if len(numbers) % 3 or any(number != int(number) for number in numbers):
            message = "`per_batch_size` lists whole numbers by threes: from, to, drafts"
            raise self._context.fail("E225", message, setting.place)
        whole = [int(number) for number in numbers]
        return tuple(zip(whole[::3], whole[1::3], whole[2::3], strict=True))

    # --- the scheduler ---

    def _scheduler(self, setting: ast.Setting) -> dict[str, Any]:
        kind = self._kind(setting, tuple(SCHEDULER_OPTIONS), "`scheduler`")
        table = SCHEDULER_OPTIONS[kind]
        fields = self._settings.fields(setting.settings or (), table, f"`scheduler {kind}`")
        options = (
            SchedulerOption(name, value if isinstance(value, str) else float(value))
            for name, value in fields.items()
        )
        return {"scheduler": kind, "scheduler_options": tuple(options)}

    # --- the layout of steps (V-065 to V-078) ---

    def _layout(self, setting: ast.Setting) -> Layout:
        kind = self._kind(setting, tuple(LAYOUT_OPTIONS), "`layout`")
        fields = self._settings.fields(setting.settings or (), LAYOUT_OPTIONS[kind], f"`layout {kind}`")
        return self._context.mark(Layout(kind, **fields), setting.place)  # type: ignore[arg-type]

    # --- the waiting queue ---

    def _waiting(self, setting: ast.Setting) -> Waiting:
        if setting.keys:
            scope = self._expressions.supplied(Moment.WAITING_KEY)
            waiting = Waiting("by", self._expressions.link_all(setting.keys, scope))
            return self._context.mark(waiting, setting.place)
        kind = self._kind(setting, tuple(WAITING_OPTIONS), "`waiting` takes keys, `by (…)`, or")
        fields = self._settings.fields(setting.settings or (), WAITING_OPTIONS[kind], f"`waiting {kind}`")
        options = tuple(WaitingOption(name, float(value)) for name, value in fields.items())
        return self._context.mark(Waiting(kind, options=options), setting.place)  # type: ignore[arg-type]
