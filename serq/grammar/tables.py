"""The tables of the language: made from ``serq.lark`` beforehand, loaded in a few milliseconds.

``python -m serq.grammar`` writes them anew after a change of the grammar; a test holds both together. Lark is
needed for that alone.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from serq.grammar.tree import Token

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Rule as LarkRule

HERE: Final = Path(__file__).parent
GRAMMAR: Final = HERE / "serq.lark"
TABLES: Final = HERE / "serq.tables"


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """What becomes of the ``size`` things that a rule of the grammar was read from.

    They make a node ``name`` of the symbol ``origin``; where ``unwraps`` is set, an only child stands for it.
    ``taken`` are those that become children: the place of each, whether its own children are taken instead,
    and how many optional parts are missing before it; ``missing`` is how many are behind them all.
    """

    origin: str
    size: int
    name: str
    unwraps: bool
    taken: list[tuple[int, bool, int]]
    missing: int


class Tables(msgspec.Struct, frozen=True, dict=True):
    """The words of the language, and the LALR(1) automaton that reads them.

    A token is what ``pattern`` finds, of the kind that its group is named after, and a name that is one of
    the ``words`` of the kind that stands there; the kinds ``ignored`` mean nothing. In state s a symbol
    leads to the state ``states[s][symbol]``, or below 0 is where the rule ``rules[~n]`` has been read.
    """

    pattern: str
    words: dict[str, str]
    ignored: frozenset[str]
    rules: list[Rule]
    start: int
    end: int
    states: list[dict[str, int]]

    @cached_property
    def _tokens(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def lex(self, text: str) -> Iterator[Token]:
        """The tokens of a text; there is none that cannot be read, if only as a bad character."""
        for match in self._tokens.finditer(text):
            kind, found = match.lastgroup, match.group()
            if kind is None or kind in self.ignored:
                continue
            if kind == "NAME":
                kind = self.words.get(found, kind)
            yield Token(kind, found, match.start(), match.end())


@cache
def load() -> Tables:
    """The shipped tables."""
    return msgspec.json.decode(zlib.decompress(TABLES.read_bytes()), type=Tables)


# --- making them --------------------------------------------------------------------------------------------


class _Postlex:
    """Keeps the terminals of broken tokens in the lexer, although no rule of the grammar uses them."""

    always_accept = ("BAD_NUMBER", "UNCLOSED_STRING", "UNCLOSED_COMMENT", "BAD_CHARACTER")

    def process(self, stream: Iterator[Any]) -> Iterator[Any]:
        return stream


def read_grammar() -> Lark:
    """The parser that Lark makes of the grammar."""
    from lark import Lark

    return Lark(
        GRAMMAR.read_text("utf-8"),
        parser="lalr",
        lexer="basic",
        start="program",
        propagate_positions=True,
        maybe_placeholders=True,
        postlex=_Postlex(),
    )


def make() -> Tables:
    """The tables of the grammar as it stands."""
    lark: Any = read_grammar()
    lexer = lark._build_lexer()
    (pattern,) = lexer.scanner._mres
    assert list(lexer.callback) == ["NAME"], "words are names"
    table = lark.parser.parser._parse_table
    numbers = {rule: number for number, rule in enumerate(lark.rules)}
    return Tables(
        pattern=pattern.pattern,
        words={word.pattern.value: str(word.name) for word in lexer.callback["NAME"].scanner.terminals},
        ignored=frozenset(map(str, lexer.ignore_types)),
        rules=[_rule(rule) for rule in lark.rules],
        start=table.start_states["program"],
        end=table.end_states["program"],
        states=[
            {
                str(symbol): target if action.name == "Shift" else ~numbers[target]
                for symbol, (action, target) in table.states[state].items()
            }
            for state in range(len(table.states))
        ],
    )


def _rule(rule: LarkRule) -> Rule:
    """What Lark's builder of trees does with a rule, for trees with placeholders and without ambiguities."""
    options = rule.options
    assert options is not None and options.template_source is None
    missing = [0] * (len(rule.expansion) + 1)
    place = 0
    for is_missing in options.empty_indices or [False] * len(rule.expansion):
        missing[place] += is_missing
        place += not is_missing
    taken, before = [], 0
    for place, symbol in enumerate(rule.expansion):
        before += missing[place]
        if options.keep_all_tokens or not (symbol.is_term and getattr(symbol, "filter_out")):  # noqa: B009
            taken.append((place, not symbol.is_term and symbol.name.startswith("_"), before))
            before = 0
    return Rule(
        origin=str(rule.origin.name),
        size=len(rule.expansion),
        name=str(rule.alias or rule.origin.name),
        unwraps=bool(options.expand1) and not rule.alias,
        taken=taken,
        missing=before + missing[-1],
    )


def write() -> None:
    """Put the tables of the grammar in the place of the shipped ones."""
    TABLES.write_bytes(zlib.compress(msgspec.json.encode(make()), 9))
