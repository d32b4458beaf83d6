"""The rules of ``serq.lark`` for engines, connectors, requests and what is asked of a run."""

# ruff: noqa: D102 - a method is a rule of the grammar under its name

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token

from serq.grammar import ast
from serq.source import Place, SourceFile, Span

Children = list[Any]
"""The built children of a rule: nodes, tuples of nodes, tokens, and None for what was left out."""


def _settings(children: Iterable[Any]) -> tuple[ast.Setting, ...]:
    return tuple(child for child in children if isinstance(child, ast.Setting))


class ServingRules:
    """Builds nodes; what all rules need stands here as well."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source

    def _place(self, start: int, end: int) -> Place:
        return Place(self._source, Span(start, end))

    def _token_place(self, token: Token) -> Place:
        assert token.start_pos is not None and token.end_pos is not None
        return self._place(token.start_pos, token.end_pos)

    def _name(self, token: Token) -> ast.Identifier:
        return ast.Identifier(self._token_place(token), str(token))

    def _names(self, tokens: Iterable[Token | None]) -> tuple[ast.Identifier, ...]:
        return tuple(self._name(token) for token in tokens if token is not None)

    def vllm(self, place: Place, c: Children) -> ast.Kind:
        costs = tuple(child for child in c if isinstance(child, ast.Option))
        return ast.Kind(place, "vllm", options=costs, settings=_settings(c))

    def cost_via(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "cost via", names=self._names(c))

    # --- engines, executors, connectors, gauges, objectives ---

    def setting(self, place: Place, c: Children) -> ast.Setting:
        return ast.Setting(place, self._name(c[0]), c[1] or ())

    def setting_by(self, place: Place, c: Children) -> ast.Setting:
        return ast.Setting(place, self._name(c[0]), keys=c[1])

    def setting_block(self, place: Place, c: Children) -> ast.Setting:
        name, kind, settings = c
        kind = None if kind is None else self._name(kind)
        return ast.Setting(place, self._name(name), kind=kind, settings=settings)

    def options(self, place: Place, c: Children) -> tuple[ast.Setting, ...]:
        return _settings(c)

    def values(self, place: Place, c: Children) -> tuple[ast.Node, ...]:
        return tuple(c)

    def text(self, place: Place, c: Children) -> ast.Text:
        return ast.Text(place, c[0].strip('"'))

    def executor(self, place: Place, c: Children) -> ast.Unit:
        return ast.Unit(place, "executor", self._name(c[0]), self._name(c[1]), c[2])

    def connector(self, place: Place, c: Children) -> ast.Unit:
        return ast.Unit(place, "connector", self._name(c[0]), self._name(c[1]), c[2])

    def gauge(self, place: Place, c: Children) -> ast.Gauge:
        return ast.Gauge(place, self._name(c[0]), c[1])

    def objective(self, place: Place, c: Children) -> ast.Objective:
        metric, statistic, comparison, limit, label = c
        return ast.Objective(place, self._name(metric), self._name(statistic), str(comparison), limit, label)

    def expectation(self, place: Place, c: Children) -> ast.Expectation:
        return ast.Expectation(place, *c)

    def expected_list(self, place: Place, c: Children) -> ast.Expectation:
        reading, comparison, values = c
        shown = ast.Binary(place, str(comparison), reading, reading)
        return ast.Expectation(place, shown, values=values)

    # --- requests ---

    def send(self, place: Place, c: Children) -> ast.Send:
        handle, stage, prompt, output, *clauses = c
        return ast.Send(place, self._name(handle), stage, prompt, output, tuple(clauses))

    def clause_of(self, place: Place, c: Children) -> ast.Option:
        *words, values = c
        return ast.Option(place, " ".join(words), values)

    def follows(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "follows", names=self._names(c))

    def fetched(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "from", names=self._names(c))

    def traced(self, place: Place, c: Children) -> ast.Option:
        return ast.Option(place, "traced")
