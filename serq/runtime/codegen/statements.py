"""The statements of a session as one Python generator function.

The generator yields whenever the session blocks (R-A-068) and is resumed when it becomes ready. A hold is a
loop around a `try`: preempting it throws ``Preempted`` into the generator, which unwinds to the hold that is
preempted and runs it again from its header (R-A-076). ``End`` returns True, through blocks of their own too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from serq.ir import nodes
from serq.runtime.codegen.expressions import Expressions, Scope, is_boolean
from serq.runtime.codegen.source import Origin, SourceText, identifier
from serq.runtime.straight.shape import StraightProgram

SESSION: Final = Scope(parameters=("s",), session="s", draws="s.draws")
"""What session statements read: attributes of ``s``, draws of its turn."""

WORKLOAD: Final = Scope(parameters=("s",), session="s", draws="s.workload_draws")
"""What `init` and `turn` blocks read."""

_DEPTH_LIMIT: Final = 14
"""Blocks nested deeper become functions of their own: Python nests at most 20 loops and `try`s."""


class Statements:
    """Translates blocks of statements; helper functions go to ``definitions``."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.definitions = SourceText()
        self.series: dict[str, str] = {}
        """Observed series -> the Python name of what records a sample, in order of first occurrence."""
        self._block_count = 0

    def generator(self, name: str, block: nodes.Block, hold_depth: int = 0) -> None:
        """Define ``name(s)``, a generator that runs ``block`` and returns whether the session ended in it."""
        text = SourceText()
        with text.indented(f"def {name}(s):"):
            with text.indented("if False:"):  # a generator, whatever the block is
                text.line("yield")
            self._block(text, block, hold_depth, 1)
            text.line("return False")
        self.definitions.append(text)

    def function(self, name: str, block: nodes.Block) -> None:
        """Define ``name(s)``, which runs an `init` or `turn` block (R-B-072)."""
        text = SourceText()
        with text.indented(f"def {name}(s):"):
            text.line("pass")
            for statement in block:
                with text.at(Origin(statement=statement.id)):
                    self._assignment(text, statement, WORKLOAD)
        self.definitions.append(text)

    def straight(self, parts: StraightProgram) -> None:
        """Define what a session of a straight program does between its stops, one function each.

        Those of the two runs return how many tokens there are.
        """
        for name, block, run in (
            ("before", parts.before, None),
            ("admitted", parts.admitted, parts.prefill),
            ("prefilled", parts.prefilled, parts.decode),
            ("decoded", parts.decoded, None),
            ("after", parts.after, None),
        ):
            text = SourceText()
            with text.indented(f"def straight_{name}(s):"):
                text.line("pass")
                self._block(text, block, 0, 1)
                if run is not None:
                    with text.at(Origin(statement=run.id)):
                        work = self.expressions.value(run.work, SESSION)
                        text.line(f"return checked_amount({work}, {f'`run {run.stages[0].name}`'!r})")
            self.definitions.append(text)

    # --- blocks -----------------------------------------------------------------------------------------

    def _block(self, text: SourceText, block: nodes.Block, holds: int, depth: int) -> None:
        for statement in block:
            with text.at(Origin(statement=statement.id)):
                _TRANSLATORS[type(statement)](self, text, statement, holds, depth)

    def _nested(self, text: SourceText, block: nodes.Block, holds: int, depth: int) -> None:
        """``block`` one level deeper, or as a generator of its own where Python would not nest it."""
        if depth <= _DEPTH_LIMIT:
            self._block(text, block, holds, depth)
            return
        name = f"block_{self._block_count}"
        self._block_count += 1
        self.generator(name, block, holds)
        with text.indented(f"if (yield from {name}(s)):"):
            text.line("return True")

    # --- statements -------------------------------------------------------------------------------------

    def _assignment(self, text: SourceText, node: nodes.AnyStatement, scope: Scope) -> None:
        if isinstance(node, nodes.Set):
            attribute = self.expressions.names.attributes[node.attribute]
            text.line(f"s.{attribute} = {self.expressions.value(node.value, scope)}")
        elif isinstance(node, nodes.Observe):
            name = self.series.setdefault(node.series, identifier("record", node.series, len(self.series)))
            text.line(f"{name}(s, {self.expressions.value(node.value, scope)})")

    def _plain(self, text: SourceText, node: nodes.AnyStatement, holds: int, depth: int) -> None:
        self._assignment(text, node, SESSION)

    def _turn(self, text: SourceText, node: nodes.Turn, holds: int, depth: int) -> None:
        text.line("begin_turn(s)")

    def _end(self, text: SourceText, node: nodes.End, holds: int, depth: int) -> None:
        text.line("return True")

    def _hold(self, text: SourceText, node: nodes.Hold, holds: int, depth: int) -> None:
        plan = self._hold_plan(node, holds)
        with text.indented("while True:"):
            with text.indented("try:"):
                with text.indented(f"if not join(s, {plan}):"):
                    text.line("return True")
                text.line("yield")
                self._nested(text, node.body, holds + 1, depth + 2)
                text.line("leave(s)")
                text.line("break")
            with (
                text.indented("except Preempted as preempted:"),
                text.indented(f"if preempted.depth != {holds}:"),
            ):
                text.line("raise")

    def _hold_plan(self, node: nodes.Hold, depth: int) -> str:
        """Define the functions of a hold's header and clauses, and the plan made of them."""
        value = self.expressions.value
        amounts = [
            "0.0" if expr is None else value(expr, SESSION)
            for unit in node.units
            for expr in (unit.units, unit.reserve)
        ]
        pools = [self.expressions.pool(unit.pool, SESSION) for unit in node.units]
        options = [f"statement={node.id}", f"depth={depth}"]
        options += [self._function(node, "pools", f"({', '.join(pools)},)")]
        options += [self._function(node, "amounts", f"({', '.join(amounts)},)")]
        if node.reuse is not None:
            options.append(self._function(node, "reuse", value(node.reuse, SESSION)))
        if node.cache is not None:
            options.append(self._function(node, "keep", value(node.cache, SESSION)))
        if node.lease is not None:
            options.append(f"leased={node.lease.unit}")
            options.append(self._function(node, "duration", value(node.lease.duration, SESSION)))
        plan = f"hold_{node.id}"
        self.definitions.line(f"{plan} = HoldPlan({', '.join(options)})")
        return plan

    def _function(self, node: nodes.Hold, role: str, value: str) -> str:
        """Define a function of the session for one part of a hold; the keyword argument that passes it."""
        name = f"{role}_{node.id}"
        with self.definitions.at(Origin(statement=node.id)), self.definitions.indented(f"def {name}(s):"):
            self.definitions.line(f"return {value}")
        return f"{role}={name}"

    def _grow(self, text: SourceText, node: nodes.Grow, holds: int, depth: int) -> None:
        pool, units = self._pool_and_units(node)
        with text.indented(f"if grow(s, {pool}, {units}):"):
            text.line("yield")

    def _load(self, text: SourceText, node: nodes.Load, holds: int, depth: int) -> None:
        pool, units = self._pool_and_units(node)
        text.line(f"load(s, {pool}, {units})")

    def _pool_and_units(self, node: nodes.Grow | nodes.Load) -> tuple[str, str]:
        return self.expressions.pool(node.pool, SESSION), self.expressions.value(node.units, SESSION)

    def _drop(self, text: SourceText, node: nodes.Drop, holds: int, depth: int) -> None:
        text.line(f"drop(s, {self.expressions.pool(node.pool, SESSION)})")

    def _release(self, text: SourceText, node: nodes.Release, holds: int, depth: int) -> None:
        text.line(f"release(s, {self.expressions.pool(node.pool, SESSION)})")

    def _run(self, text: SourceText, node: nodes.Run, holds: int, depth: int) -> None:
        stages = [self.expressions.stage(stage, SESSION) for stage in node.stages]
        work = self.expressions.value(node.work, SESSION)
        if node.mode is not None:
            growing = "None" if node.growing is None else self.expressions.pool(node.growing, SESSION)
            text.line(f"run_tokens(s, {stages[0]}, {work}, {node.mode == 'decode'}, {growing})")
        elif len(stages) > 1:
            text.line(f"run_flow(s, ({', '.join(stages)}), {work})")
        else:
            text.line(f"run(s, {stages[0]}, {work})")
        text.line("yield")

    def _request(self, text: SourceText, node: nodes.Request, holds: int, depth: int) -> None:
        value = self.expressions.value
        terms = [repr(node.handle), value(node.prompt_tokens, SESSION), value(node.output_tokens, SESSION)]
        if node.follows is not None:
            terms.append(f"follows={node.follows!r}")
        if node.fetched is not None:
            terms.append(f"source={node.fetched.handle!r}")
        if node.traced:
            terms.append("traced=True")
        if node.prefix is not None:
            text_, tokens = node.prefix.text, node.prefix.tokens
            terms.append(f"prefix=({value(text_, SESSION)}, {value(tokens, SESSION)})")
        for clause in _CLAUSES:
            expr = getattr(node, clause)
            if expr is not None:
                terms.append(f"{clause}={value(expr, SESSION)}")
        if node.accept:
            terms.append(f"accept=({', '.join(value(chance, SESSION) for chance in node.accept)},)")
        stage = self.expressions.stage(node.stage, SESSION)
        text.line(f"send_request(s, {stage}, RequestTerms({', '.join(terms)}))")
        text.line("yield")

    def _branch(self, text: SourceText, node: nodes.Branch, holds: int, depth: int) -> None:
        with text.indented(f"if {branch_condition(self.expressions, node, SESSION)}:"):
            text.line("pass")
            self._nested(text, node.then, holds, depth + 1)
        if node.otherwise:
            with text.indented("else:"):
                self._nested(text, node.otherwise, holds, depth + 1)

    def _loop(self, text: SourceText, node: nodes.Loop, holds: int, depth: int) -> None:
        with text.indented("while True:"):
            if not _surely_blocks(node.body):
                text.line(f"count_statements(s, {max(1, _size(node.body))})")
            self._nested(text, node.body, holds, depth + 1)

    def _choose(self, text: SourceText, node: nodes.Choose, holds: int, depth: int) -> None:
        name = f"choose_{node.id}"
        define = self.definitions
        with define.at(Origin(statement=node.id)), define.indented(f"def {name}(s):"):
            write_choice(define, self.expressions, node, "s.", SESSION)
        text.line(f"{name}(s)")


def branch_condition(expressions: Expressions, node: nodes.Branch, scope: Scope) -> str:
    """The condition of a branch; one that need not be 0 or 1 is checked."""
    if is_boolean(node.condition):
        return expressions.condition(node.condition, scope)
    return f"guard({expressions.value(node.condition, scope)})"


def write_choice(
    text: SourceText, expressions: Expressions, node: nodes.Choose, owner: str, scope: Scope
) -> None:
    """The loop of `choose`, which sets an attribute of ``owner``."""
    attribute = owner + expressions.names.attributes[node.attribute]
    keys = ", ".join(expressions.value(key, scope) for key in node.keys)
    key = keys if len(node.keys) == 1 else f"({keys})"
    less = "key < best" if len(node.keys) == 1 else "precedes(key, best)"
    text.line("best = None")
    text.line("chosen = 0.0")
    with text.indented(f"for j in range(whole_count({expressions.value(node.count, scope)})):"):
        text.line(f"{attribute} = float(j)")
        text.line(f"key = {key}")
        with text.indented(f"if best is None or {less}:"):
            text.line("best = key")
            text.line("chosen = float(j)")
    text.line(f"{attribute} = chosen")


def _surely_blocks(block: nodes.Block) -> bool:
    """Whether every way through ``block`` blocks or ends the session."""
    for statement in block:
        match statement:
            case nodes.Run() | nodes.Request() | nodes.Hold() | nodes.End():
                return True
            case nodes.Branch(then=then, otherwise=otherwise):
                if _surely_blocks(then) and _surely_blocks(otherwise):
                    return True
            case nodes.Loop():
                return True
    return False


def _size(block: nodes.Block) -> int:
    """How many statements stand in ``block``, at any depth."""
    total = 0
    for statement in block:
        total += 1
        match statement:
            case nodes.Branch(then=then, otherwise=otherwise):
                total += _size(then) + _size(otherwise)
            case nodes.Hold(body=body) | nodes.Loop(body=body):
                total += _size(body)
    return total


VALUES: Final = ("label", "priority", "max_tokens", "min_tokens", "job")
"""Clauses of a request that have one value, and say nothing of when it begins or ends."""

_CLAUSES: Final = (*VALUES, "abort_after", "immediate", "skip_reading_prefix_cache")
"""Clauses of a request that have one value, under the names of the IR and of `RequestTerms`."""

_TRANSLATORS: Final[Mapping[type, Callable[..., None]]] = {
    nodes.Set: Statements._plain,
    nodes.Observe: Statements._plain,
    nodes.Turn: Statements._turn,
    nodes.End: Statements._end,
    nodes.Hold: Statements._hold,
    nodes.Grow: Statements._grow,
    nodes.Load: Statements._load,
    nodes.Drop: Statements._drop,
    nodes.Release: Statements._release,
    nodes.Run: Statements._run,
    nodes.Request: Statements._request,
    nodes.Branch: Statements._branch,
    nodes.Loop: Statements._loop,
    nodes.Choose: Statements._choose,
}
