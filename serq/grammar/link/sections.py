"""The declarations of a program: pools, stages, the workload, the run block."""

from __future__ import annotations

from typing import Any, Literal

from serq.grammar import ast
from serq.grammar.link.context import Context, UnlinkableError
from serq.grammar.link.engines import Engines
from serq.grammar.link.executors import cost_via
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.help import which
from serq.ir import nodes as ir


def options_of(options: tuple[ast.Option, ...]) -> dict[str, ast.Option]:
    """Option by word; where one is repeated the last counts (R-A-041, R-B-025)."""
    return {option.word: option for option in options}


class Sections:
    """Links one declaration at a time."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self._context = context
        self._expressions = expressions
        self._engines = Engines(context, expressions)

    # --- pools (R-A-040 to R-A-042) ---

    def pool(self, node: ast.Pool) -> ir.Pool:
        """A pool and its options."""
        self._context.begin_section()
        fields: dict[str, Any] = {}
        parts: dict[str, ast.Option] = {}
        for word, option in options_of(node.options).items():
            with self._context.attempt():
                name, value = self._pool_option(word, option)
                fields[name], parts[name] = value, option
        count = self._context.pools[node.name.text].count
        pool = ir.Pool(node.name.text, count, node.size is not None, **fields)
        for name, option in parts.items():
            self._context.mark(pool, option.place, name)
        return self._context.mark(pool, node.name.place)

    def _pool_option(self, word: str, option: ast.Option) -> tuple[str, Any]:
        link = self._expressions
        match word:
            case "cap":
                return "capacity", link.constant(option.values[0], "`cap`")
            case "block":
                return "block", link.constant(option.values[0], "`block`")
            case "evict":
                return "evict_by", link.link_all(option.values)
            case "queue":
                return "queue_by", link.link_all(option.values)
            case "preempt":
                return "preempt", option.names[0].text
            case "admit via":
                return "admit_via", self._known(option.names[0], "stage")
            case _:
                tier, stage = option.names
                spill = ir.Spill(
                    self._context.mark(ir.PoolRef(self._known(tier, "pool")), tier.place),
                    self._context.mark(ir.StageRef(self._known(stage, "stage")), stage.place),
                    *link.link_all(option.values),
                )
                return "spill", self._context.mark(spill, option.place)

    def _known(self, name: ast.Identifier, what: Literal["pool", "stage"]) -> str:
        declared = self._context.pools if what == "pool" else self._context.stages
        if name.text in declared:
            return name.text
        if name.text in self._context.unreadable:
            raise UnlinkableError
        help_ = which(name.text, declared, what)
        raise self._context.fail("E209", f"unknown {what} `{name.text}`", name.place, help=help_)

    # --- stages (R-B-010 to R-B-017) ---

    def stage(self, node: ast.Stage) -> ir.Stage:
        """A stage and what it is."""
        self._context.begin_section()
        kind = self._context.mark(self._kind(node), node.kind.place)
        count = self._context.stages[node.name.text].count
        stage = ir.Stage(node.name.text, kind, count, node.size is not None)
        return self._context.mark(stage, node.name.place)

    def _kind(self, node: ast.Stage) -> ir.StageKind:
        kind = node.kind
        match kind.word:
            case "fifo":
                return ir.Fifo(self._servers(kind.values[0]) if kind.values else 1)
            case "ps":
                return ir.ProcessorSharing(self._expressions.link(kind.values[0]))
            case "delay":
                return ir.Delay()
            case "step":
                return self._step(node)
            case "vllm":
                return self._engines.vllm(node)

    def _servers(self, node: ast.Expr) -> int:
        return self.whole(node, "the number of servers")

    def whole(self, node: ast.Expr, what: str) -> int:
        """A constant that counts something: whole, and at least 1."""
        value = self._expressions.constant(node, what)
        if not (1 <= value < float("inf") and value == int(value)):
            raise self._context.fail(
                "E215", f"{what} must be a whole number from 1, not {value:g}", node.place
            )
        return int(value)

    def _step(self, node: ast.Stage) -> ir.Step:
        context, fields, parts = self._context, dict[str, Any](), dict[str, ast.Option]()
        self._check_serve(node.kind.options)
        for word, option in options_of(node.kind.options).items():
            with context.attempt():
                name, value = self._step_option(word, option)
                fields[name], parts[name] = value, option
        if context.readable and not any(option.word.startswith("cost") for option in node.kind.options):
            message = f"stage `{node.name.text}` needs a `cost`: what an iteration takes"
            context.error("E217", message, node.name.place, help="add `cost …;`")
        costs = [option for option in node.kind.options if option.word.startswith("cost")]
        if len({option.word for option in costs}) > 1:
            context.error("E223", "`cost` is given twice", costs[-1].place)
        if "cost" not in fields:
            raise UnlinkableError
        step = ir.Step(**fields)
        for name, option in parts.items():
            context.mark(step, option.place, name)
        return step

    def _check_serve(self, options: tuple[ast.Option, ...]) -> None:
        """`serve` is given once, and `serve only` once beside it."""
        for only in (False, True):
            serves = [o for o in options if o.word.startswith("serve") and (o.word == "serve only") == only]
            for repeated in serves[1:]:
                what = "`serve only`" if only else "an order of service"
                self._context.error("E218", f"{what} is given twice", repeated.place)

    def _step_option(self, word: str, option: ast.Option) -> tuple[str, Any]:
        link = self._expressions
        match word:
            case "budget" | "chunk" | "cost":
                return word, link.link(option.values[0])
            case "cost via":
                return "cost", cost_via(self._context, option)
            case "memory":
                return word, self._known(option.names[0], "pool")
            case "serve by":
                return "serve_by", link.link_all(option.values)
            case "serve only":
                return "serve_only", link.link(option.values[0])
            case "serve exclusive prefill":
                return "exclusive_prefill", True
            case "serve decode first":
                return "serve_by", (self._decode_first(option),)
            case _:
                return "serve_by", ()

    def _decode_first(self, option: ast.Option) -> ir.Expr:
        mark = self._context.mark
        decoding = mark(ir.Variable("decoding"), option.place)
        return mark(ir.Conditional(decoding, ir.Number(0.0), ir.Number(1.0)), option.place)

    # --- workload (R-B-070 to R-B-075) ---

    def workload(self, node: ast.Workload, init: ir.Block, turn: ir.Block) -> ir.Workload:
        """The workload; its blocks are linked already."""
        fields: dict[str, Any] = {"init": init, "turn": turn, "hidden": ()}
        parts: list[tuple[str, ast.Option]] = []
        for option in node.options:
            with self._context.attempt():
                fields |= self._workload_option(option, fields["hidden"])
                parts.append((option.word.split()[0], option))
        workload = ir.Workload(**fields)
        for word, option in reversed(parts):
            self._context.mark(workload, option.place, word)
            for name in option.names if word == "hidden" else ():
                self._context.mark(workload, name.place, f"hidden {name.text}")
        return self._context.mark(workload, node.place)

    def _workload_option(self, option: ast.Option, hidden: tuple[str, ...]) -> dict[str, Any]:
        match option.word:
            case "trace":
                path, *ordered = option.names
                return {"trace": path.text, "ordered": bool(ordered)}
            case "hidden":
                return {"hidden": (*hidden, *(name.text for name in option.names))}
            case _:
                return {"arrive": self._arrival(option)}

    def _arrival(self, option: ast.Option) -> ir.Arrival | None:
        kind = option.word.removeprefix("arrive ")
        value = option.values[0] if option.values else None
        constant = self._expressions.constant
        arrival: ir.Arrival
        match kind, value:
            case "none", _:
                return None
            case "trace", None:
                arrival = ir.Traced()
            case _, None:
                raise AssertionError(kind)
            case "trace", _:
                arrival = ir.Traced(constant(value, "the speed of a trace"))
            case "poisson", _:
                arrival = ir.Poisson(constant(value, "the rate of arrivals"))
            case "renewal", _:
                self._context.begin_section()
                arrival = ir.Renewal(self._expressions.link(value))
            case "closed", _:
                arrival = ir.Closed(self._sessions(value))
            case _:
                arrival = ir.Batch(self._sessions(value))
        return self._context.mark(arrival, option.place)

    def _sessions(self, node: ast.Expr) -> int:
        """A number of sessions; a fraction is cut, a negative one is none (R-B-071)."""
        value = self._expressions.constant(node, "the number of sessions")
        if value == float("inf"):
            raise self._context.fail("E215", "the number of sessions must be finite", node.place)
        return max(0, int(max(value, 0.0)))

    # --- run block (R-B-090) ---

    def run(self, nodes: list[ast.RunSettings]) -> ir.RunSettings:
        """All run blocks together; where a setting is repeated the last counts."""
        options = options_of(tuple(option for node in nodes for option in node.options))
        fields: dict[str, Any] = {}
        for word, option in options.items():
            with self._context.attempt():
                value = self._expressions.constant(option.values[0], f"`{word}`")
                fields[word] = self._counted(value, option) if word in ("seed", "arrivals") else value
        settings = ir.RunSettings(**fields)
        for word, option in options.items():
            self._context.mark(settings, option.values[0].place, word)
        return settings if not nodes else self._context.mark(settings, nodes[-1].place)

    def _counted(self, value: float, option: ast.Option) -> int:
        """A seed or a number of arrivals: a fraction is cut, a negative one is 0."""
        if value == float("inf"):
            raise self._context.fail("E215", f"`{option.word}` must be finite", option.values[0].place)
        return int(max(value, 0.0))
