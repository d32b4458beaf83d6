"""From the parser's tree to the syntax tree: one method a rule of ``serq.lark``, in its order.

Nothing is judged here but what the grammar leaves open; what the parser skipped (BAD_… tokens) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token, Tree

from serq.grammar import ast
from serq.grammar.build_serving import Children, ServingRules
from serq.source import Place, SourceFile


def build(source: SourceFile, tree: Tree[Token]) -> ast.Program:
    """The syntax tree of one file."""
    builder = _Builder(source)
    built: dict[int, Any] = {}
    for node in tree.iter_subtrees():
        children = [built[id(child)] if isinstance(child, Tree) else child for child in node.children]
        built[id(node)] = builder.rule(node, children)
    program = built[id(tree)]
    assert isinstance(program, ast.Program)
    return program


def _nodes(children: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(child for child in children if isinstance(child, ast.Node))


class _Builder(ServingRules):
    def rule(self, node: Tree[Token], children: Children) -> Any:
        """What a rule stands for; its children are built."""
        meta = node.meta
        place = self._place(0, 0) if meta.empty else self._place(meta.start_pos, meta.end_pos)
        return getattr(self, node.data)(place, children)

    # --- items ---

    def program(self, place: Place, c: Children) -> ast.Program:
        return ast.Program(place, _nodes(c))

    def let(self, place: Place, c: Children) -> ast.Let:
        return ast.Let(place, self._name(c[0]), c[1])

    def expression_def(self, place: Place, c: Children) -> ast.Definition:
        return ast.Definition(place, self._name(c[0]), c[1], c[2])

    statement_def = expression_def

    def parameters(self, place: Place, c: Children) -> tuple[ast.Identifier, ...]:
        return self._names(c)

    def use(self, place: Place, c: Children) -> ast.Use:
        return ast.Use(place, c[0].strip('"'))

    def session(self, place: Place, c: Children) -> ast.Section:
        return ast.Section(place, "session", c[0])

    def server(self, place: Place, c: Children) -> ast.Section:
        return ast.Section(place, "server", c[0])

    def share(self, place: Place, c: Children) -> ast.Share:
        return ast.Share(place, self._name(c[0]))

    def run_settings(self, place: Place, c: Children) -> ast.RunSettings:
        return ast.RunSettings(place, _nodes(c))

    def run_setting(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, str(c[0]), (c[1],))

    def size(self, place: Place, c: Children) -> ast.Expr | None:
        return c[0]  # type: ignore[no-any-return]

    # --- pools ---

    def pool(self, place: Place, c: Children) -> ast.Pool:
        return ast.Pool(place, self._name(c[0]), c[1], _nodes(c[2:]))

    pool_number = run_setting

    def evict(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "evict", c[0] if isinstance(c[0], tuple) else ())

    def preempt(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "preempt", names=self._names(c))

    def queue(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "queue", c[0] if isinstance(c[0], tuple) else ())

    def admit_via(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "admit via", names=self._names(c))

    def spill(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "spill", (c[2], c[3]), self._names(c[:2]))

    # --- stages ---

    def stage(self, place: Place, c: Children) -> ast.Stage:
        return ast.Stage(place, self._name(c[0]), c[1], c[2])

    def fifo(self, place: Place, c: Children) -> ast.Kind:
        return ast.Kind(place, "fifo", _nodes(c))

    def ps(self, place: Place, c: Children) -> ast.Kind:
        return ast.Kind(place, "ps", (c[0],))

    def delay(self, place: Place, c: Children) -> ast.Kind:
        return ast.Kind(place, "delay")

    def step(self, place: Place, c: Children) -> ast.Kind:
        return ast.Kind(place, "step", options=_nodes(c))

    step_number = run_setting

    def memory(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "memory", names=self._names(c))

    def serve_admission(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "serve admission")

    def serve_decode_first(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "serve decode first")

    def serve_exclusive_prefill(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "serve exclusive prefill")

    def serve_by(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "serve by", c[0])

    def serve_only(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "serve only", (c[0],))

    # --- workload ---

    def workload(self, place: Place, c: Children) -> ast.Workload:
        options = tuple(child for child in c if isinstance(child, ast.Option))
        sections = tuple(child for child in c if isinstance(child, ast.Section))
        return ast.Workload(place, options, sections)

    def arrive(self, place: Place, c: Children) -> ast.Option:
        word, *values = c[0]
        return ast.Option(place, f"arrive {word}", tuple(values))

    def arrival_of(self, place: Place, c: Children) -> tuple[Any, ...]:
        return (str(c[0]), c[1])

    def arrival_none(self, place: Place, c: Children) -> tuple[Any, ...]:
        return ("none",)

    def arrival_traced(self, place: Place, c: Children) -> tuple[Any, ...]:
        return ("trace", *_nodes(c))

    def trace(self, place: Place, c: Children) -> ast.Option:
        path = ast.Identifier(self._token_place(c[0]), c[0].strip('"'))
        return ast.Option(place, "trace", names=(path, *self._names(c[1:])))

    def init(self, place: Place, c: Children) -> ast.Section:
        return ast.Section(place, "init", c[0])

    def turn_block(self, place: Place, c: Children) -> ast.Section:
        return ast.Section(place, "turn", c[0])

    def hidden(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "hidden", names=self._names(c))

    # --- statements ---

    def block(self, place: Place, c: Children) -> ast.Block:
        return ast.Block(place, _nodes(c))

    def turn(self, place: Place, c: Children) -> ast.Turn:
        return ast.Turn(place)

    def end(self, place: Place, c: Children) -> ast.End:
        return ast.End(place)

    def request(self, place: Place, c: Children) -> ast.Request:
        return ast.Request(place)

    def set(self, place: Place, c: Children) -> ast.Set:
        return ast.Set(place, self._name(c[0]), c[1])

    def observe(self, place: Place, c: Children) -> ast.Observe:
        return ast.Observe(place, self._name(c[0]), c[1])

    def hold(self, place: Place, c: Children) -> ast.Hold:
        *head, body, cache, lease = c
        bindings, reuse = head.pop() or (), head.pop()
        return ast.Hold(place, tuple(head), reuse, bindings, body, cache, lease)

    def unit(self, place: Place, c: Children) -> ast.HoldUnit:
        return ast.HoldUnit(place, *c)

    def reuse(self, place: Place, c: Children) -> ast.Expr:
        return c[0]  # type: ignore[no-any-return]

    def bindings(self, place: Place, c: Children) -> tuple[ast.Binding, ...]:
        return _nodes(c)

    def binding(self, place: Place, c: Children) -> ast.Binding:
        return ast.Binding(place, self._name(c[0]), c[1])

    cache = reuse

    def lease(self, place: Place, c: Children) -> ast.Lease:
        return ast.Lease(place, *c)

    def growing(self, place: Place, c: Children) -> ast.Reference:
        return c[0]  # type: ignore[no-any-return]

    def ref(self, place: Place, c: Children) -> ast.Reference:
        return ast.Reference(place, self._name(c[0]), c[1])

    def grow(self, place: Place, c: Children) -> ast.PoolStatement:
        return ast.PoolStatement(place, "grow", *c)

    def load(self, place: Place, c: Children) -> ast.PoolStatement:
        return ast.PoolStatement(place, "load", *c)

    def drop(self, place: Place, c: Children) -> ast.PoolStatement:
        return ast.PoolStatement(place, "drop", *c)

    def release(self, place: Place, c: Children) -> ast.PoolStatement:
        return ast.PoolStatement(place, "release", *c)

    def run(self, place: Place, c: Children) -> ast.Run:
        stage, mode, work, growing = c
        return ast.Run(place, (stage,), mode and str(mode), work, growing)  # type: ignore[arg-type]

    def flow(self, place: Place, c: Children) -> ast.Run:
        *stages, work = c
        return ast.Run(place, tuple(stages), None, work, None)

    def branch(self, place: Place, c: Children) -> ast.Branch:
        chance, condition, then, otherwise = c
        return ast.Branch(place, condition, chance is not None, then, otherwise)

    def loop(self, place: Place, c: Children) -> ast.Loop:
        return ast.Loop(place, c[0])

    def choose(self, place: Place, c: Children) -> ast.Choose:
        return ast.Choose(place, self._name(c[0]), c[1], c[2])

    def serving(self, place: Place, c: Children) -> ast.Serving:
        role, where, work, growing = c
        return ast.Serving(place, str(role), where, work, growing)  # type: ignore[arg-type]

    def transfer(self, place: Place, c: Children) -> ast.Transfer:
        _, where, work, origin, target, units = c
        return ast.Transfer(place, where, work, origin, target, units)

    def member(self, place: Place, c: Children) -> ast.Expr:
        return c[0]  # type: ignore[no-any-return]

    def on_stages(self, place: Place, c: Children) -> tuple[ast.Reference, ...]:
        return tuple(c)

    on_stage = on_stages

    def call_statement(self, place: Place, c: Children) -> ast.CallStatement:
        return ast.CallStatement(place, self._name(c[0]), c[1])

    # --- expressions ---

    def exprs(self, place: Place, c: Children) -> tuple[ast.Expr, ...]:
        return tuple(c)

    def conditional(self, place: Place, c: Children) -> ast.Conditional:
        return ast.Conditional(place, *c)

    def chain(self, place: Place, c: Children) -> ast.Expr:
        left: ast.Expr = c[0]
        for operator, right in zip(c[1::2], c[2::2], strict=True):
            left = ast.Binary(left.place.to(right.place), str(operator), left, right)
        return left

    or_ = and_ = comparison = add = mul = power = chain

    def prefixed(self, place: Place, c: Children) -> ast.Unary:
        return ast.Unary(place, str(c[0]), c[1])  # type: ignore[arg-type]

    def number(self, place: Place, c: Children) -> ast.Number:
        return ast.Number(place, float(c[0].replace("_", "")))

    def variable(self, place: Place, c: Children) -> ast.Name:
        return ast.Name(place, str(c[0]))

    def parenthesised(self, place: Place, c: Children) -> ast.Parenthesised:
        return ast.Parenthesised(place, c[0])

    def draw(self, place: Place, c: Children) -> ast.Draw:
        return ast.Draw(place, self._name(c[0]), c[1])

    def call(self, place: Place, c: Children) -> ast.Call:
        return ast.Call(place, self._name(c[0]), c[1])

    def aggregate(self, place: Place, c: Children) -> ast.Aggregate:
        return ast.Aggregate(place, str(c[0]), self._name(c[1]), c[2], c[3])  # type: ignore[arg-type]

    def arguments(self, place: Place, c: Children) -> tuple[ast.Argument, ...]:
        return _nodes(c)

    def member_argument(self, place: Place, c: Children) -> ast.Reference:
        return ast.Reference(place, self._name(c[0]), c[1])
