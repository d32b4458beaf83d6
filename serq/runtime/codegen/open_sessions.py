"""Sessions of an open run as plain functions: up to their request, and from its end on.

Such a session sends one request and then only notes what came of it (:mod:`serq.runtime.open_run.shape`).
So it needs no generator and no object: its attributes are local variables, and those that are read later are
kept with the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from serq.ir import nodes
from serq.ir.walk import descendants
from serq.runtime.codegen import reading
from serq.runtime.codegen.expressions import Expressions, Scope
from serq.runtime.codegen.source import Origin, SourceText
from serq.runtime.codegen.statements import VALUES, branch_condition, write_choice

_ROW: Final = ("new", "out", "think", "forced")
"""Attributes that `turn;` takes from a row of the trace."""

SAMPLE_COLUMNS: Final = ("values", "times", "sessions", "turns")
"""Columns of a series. ``NAME_COLUMN`` appends to one, in generated code."""


class OpenSessions:
    """Defines ``open_arrive`` and, for every request of ``program``, an ``open_over_N``.

    ``open_arrive(number, now, trace, row, rows_end)`` runs session ``number`` from its arrival to its request
    and returns that, or None if it ended without one. ``open_over_N(now, request)`` runs the rest, when the
    request has ended. ``series`` says how what records the samples of a series is called.
    """

    def __init__(self, program: nodes.Program, expressions: Expressions, series: Mapping[str, str]) -> None:
        self.text = SourceText()
        self._expressions = expressions
        self._attributes = expressions.names.attributes
        self._series = series
        self._workload = program.workload
        brought = (*program.workload.init, *program.workload.turn)
        parts = (*brought, *program.session)
        self._requests = {
            request.id: (number, request, after)
            for number, (request, after) in enumerate(_requests(program.session))
        }
        """Every request, and the statements that follow it."""
        after = [statement for _, _, block in self._requests.values() for statement in block]
        self._sets_turn_number = "turn_no" in _assigned(parts)
        self._kept = self._locals(_read((*after, *_waiting_keys(program))), reading.draws(after))
        """Variables that are read when the request is sent: to order those who wait, or later."""
        if self._sets_turn_number and "a_turn_no" not in self._kept:
            self._kept.append("a_turn_no")
        self._names = self._locals(dict.fromkeys((*_read(parts), *_assigned(parts))), draws=False)
        self._names += [name for name in self._kept if name not in (*self._names, "draws")]
        self._read = {*_read(parts), *_read(_waiting_keys(program))}
        self._streams = {
            "draws": reading.draws(program.session),
            "workload_draws": reading.draws(brought),
        }
        """The streams of draws there may be, and whether there are."""
        self._keep()
        self._arrive(program.session)
        for number, request, block in self._requests.values():
            with self.text.at(Origin(statement=request.id)):
                self._over(number, request, block)

    def _locals(self, attributes: Iterable[str], draws: bool) -> list[str]:
        return [self._attributes[name] for name in attributes] + ["draws"] * draws

    def _scope_of(self, stream: str) -> Scope:
        parameters = (*self._names, *([stream] if self._streams[stream] else ()))
        return Scope(parameters=parameters, draws=stream, are_local=True)

    # --- from the arrival to the request ------------------------------------------------------------------

    def _keep(self) -> None:
        """The class of what is kept with a request."""
        if not self._kept:
            return
        text = self.text
        with text.indented("class OpenKept:"):
            text.line(f"__slots__ = {tuple(self._kept)!r}")
            with text.indented(f"def __init__(self, {', '.join(self._kept)}):"):
                for name in self._kept:
                    text.line(f"self.{name} = {name}")

    def _arrive(self, session: nodes.Block) -> None:
        text = self.text
        with text.indented("def open_arrive(number, now, trace, row, rows_end):"):
            text.line("turn = 0")
            for name in self._names:
                text.line(f"{name} = {'float(number)' if name == 'a_serial' else '0.0'}")
            self._begin_draws()
            self._bring(self._workload.init)
            self._block(session, self._scope_of("draws"))
            text.line("return None")

    def _begin_draws(self) -> None:
        """Every turn has draws of its own."""
        for stream, used in self._streams.items():
            if used:
                self.text.line(f"{stream} = stream_of_{stream}(number, turn)")

    def _bring(self, block: nodes.Block) -> None:
        """An `init` or `turn` block (R-B-072)."""
        self._block(block, self._scope_of("workload_draws"))

    def _block(self, block: nodes.Block, scope: Scope) -> None:
        """``block``, up to its request; what follows that is not reached."""
        for statement in block:
            with self.text.at(Origin(statement=statement.id)):
                if isinstance(statement, nodes.Request):
                    self._send(statement, scope)
                    return
                self._statement(statement, scope)

    def _statement(self, node: nodes.AnyStatement, scope: Scope) -> None:
        text, expressions = self.text, self._expressions
        match node:
            case nodes.Set(attribute=attribute, value=value):
                text.line(f"{self._attributes[attribute]} = {expressions.value(value, scope)}")
            case nodes.Choose():
                write_choice(text, expressions, node, "", scope)
            case nodes.Observe(series=series, value=value):
                self._observe(self._series[series], expressions.value(value, scope))
            case nodes.Turn():
                self._turn()
            case nodes.End():
                text.line("return None")
            case nodes.Branch():
                self._branch(node, scope)
            case _:
                raise AssertionError(f"no statement of an open run: {node}")

    def _branch(self, node: nodes.Branch, scope: Scope) -> None:
        for opening, block in (
            (f"if {branch_condition(self._expressions, node, scope)}:", node.then),
            ("else:", node.otherwise),
        ):
            with self.text.indented(opening):
                self.text.line("pass")
                self._block(block, scope)

    def _turn(self) -> None:
        """`turn;`: the next number, the next row of the trace, the `turn` block (R-A-090, R-B-081)."""
        text = self.text
        text.line("turn += 1")
        text.line("workload.turns += 1")
        if "a_turn_no" in self._names:
            text.line("a_turn_no += 1.0")
        self._begin_draws()
        with text.indented("if trace is not None:"):
            with text.indented("if row < rows_end:"):
                for name in _ROW:
                    if name in self._read:
                        text.line(f"a_{name} = trace.{name}[row]")
                text.line("row += 1")
            if "more" in self._read:
                text.line("a_more = 1.0 if row < rows_end else 0.0")
        self._bring(self._workload.turn)

    def _send(self, node: nodes.Request, scope: Scope) -> None:
        number = self._requests[node.id][0]

        def value(expr: nodes.Expr) -> str:
            return self._expressions.value(expr, scope)

        terms = [
            *("number", "turn", "now", f"{self._expressions.stage(node.stage, scope)}.engine"),
            *(f"open_over_{number}", repr(node.handle)),
            f"OpenKept({', '.join(self._kept)})" if self._kept else "None",
            *(value(node.prompt_tokens), value(node.output_tokens)),
        ]
        terms += [
            f"{clause}={value(expr)}" for clause in VALUES if (expr := getattr(node, clause)) is not None
        ]
        if node.prefix is not None:
            terms.append(f"prefix=({value(node.prefix.text)}, {value(node.prefix.tokens)})")
        if node.traced:
            terms.append("hash_ids=hash_ids_of(trace, row, turn)")
        self.text.line(f"return send({', '.join(terms)})")

    # --- from the end of the request on -------------------------------------------------------------------

    def _over(self, number: int, request: nodes.Request, block: nodes.Block) -> None:
        text = self.text
        names = self._locals(dict.fromkeys((*_read(block), *_assigned(block))), reading.draws(block))
        observes = any(isinstance(node, nodes.Observe) for part in block for node in descendants(part))
        if observes and self._sets_turn_number and "a_turn_no" not in names:
            names.append("a_turn_no")
        scope = Scope(
            parameters=(*names, "request"),
            draws="draws",
            are_local=True,
            requests={request.handle: "request"},
        )
        with text.indented(f"def open_over_{number}(now, request):"):
            text.line("pass")
            for name in names:
                text.line(f"{name} = {f'request.kept.{name}' if name in self._kept else '0.0'}")
            if observes:
                turn = "turn_number(a_turn_no)" if self._sets_turn_number else "float(request.turn)"
                text.line("number = request.session_number")
                text.line(f"turn_no = {turn}")
            self._block(block, scope)

    def _observe(self, name: str, value: str) -> None:
        """A sample counts from warm-up on (R-A-100)."""
        text = self.text
        text.line(f"sample = {value}")
        with text.indented("if now >= warmup:"):
            for column, of_sample in zip(SAMPLE_COLUMNS, ("sample", "now", "number", "turn_no"), strict=True):
                text.line(f"{name}_{column}({of_sample})")


def _requests(
    block: nodes.Block, rest: nodes.Block = ()
) -> Iterator[tuple[nodes.Request, nodes.Block]]:
    """The requests in ``block``, which ``rest`` follows, and the statements that follow each."""
    for place, statement in enumerate(block):
        following = (*block[place + 1 :], *rest)
        match statement:
            case nodes.Request():
                yield statement, following
                return
            case nodes.Branch(then=then, otherwise=otherwise):
                yield from _requests(then, following)
                yield from _requests(otherwise, following)


def _read(parts: Iterable[nodes.Node]) -> dict[str, None]:
    """The attributes that ``parts`` read, in order of first occurrence."""
    return {
        node.name: None
        for part in parts
        for node in descendants(part)
        if isinstance(node, nodes.Attribute)
    }


def _assigned(parts: Iterable[nodes.Node]) -> dict[str, None]:
    """The attributes that ``parts`` assign, likewise."""
    return {
        node.attribute: None
        for part in parts
        for node in descendants(part)
        if isinstance(node, nodes.Set | nodes.Choose)
    }


def _waiting_keys(program: nodes.Program) -> tuple[nodes.Expr, ...]:
    """What orders those who wait at an engine."""
    kinds = (stage.kind for stage in program.stages)
    return tuple(key for kind in kinds if isinstance(kind, nodes.Vllm) for key in kind.waiting.keys)
