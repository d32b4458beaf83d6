"""What could stand at a place instead of what stands there, in the words of the language."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import msgspec
from lark import Token

from serq.grammar.names import STATEMENT_WORDS
from serq.grammar.tokens import span_of
from serq.ir.nearest import closest
from serq.source import Diagnostic, SourceFile, Span

_ITEMS: Final = ("let", "def", "use", "pool", "stage", "workload", "session", "server", "share", "run",
                 "executor", "connector", "gauge", "slo", "expect")  # fmt: skip
_POOL_OPTIONS: Final = ("cap", "block", "evict", "preempt", "queue", "admit", "spill")
_STEP_OPTIONS: Final = ("budget", "chunk", "cost", "memory", "serve")
_WORKLOAD_ITEMS: Final = ("arrive", "trace", "init", "turn", "hidden", "session")
_RUN_SETTINGS: Final = ("horizon", "warmup", "seed", "arrivals")

PLACEHOLDERS: Final = {
    "BAD_STATEMENT": ("a statement", STATEMENT_WORDS),
    "BAD_POOL_OPTION": ("an option of a pool", _POOL_OPTIONS),
    "BAD_STEP_OPTION": ("an option of a step stage", _STEP_OPTIONS),
    "BAD_OPTION": ("an option", ("cost",)),
    "BAD_WORKLOAD_ITEM": ("a part of the workload", _WORKLOAD_ITEMS),
    "BAD_RUN_SETTING": ("a run setting", _RUN_SETTINGS),
    "BAD_ITEM": ("an item of a program", _ITEMS),
}
"""What may stand in a list of the grammar: its name, and the words that begin one."""

STARTS: Final = {key: frozenset(word.upper() for word in words) for key, (_, words) in PLACEHOLDERS.items()}
"""Placeholder -> terminals that begin the next one of its kind."""

AFTER_BLOCK: Final = frozenset({"ELSE", "CACHE", "LEASE", "SEMICOLON"})
"""What goes on with a statement behind its block."""

ALL_STARTS: Final = frozenset().union(*STARTS.values())
_PUNCTUATION: Final = {
    "SEMICOLON": ";",
    "COMMA": ",",
    "COLON": ":",
    "EQUAL": "=",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
}
_OPERATORS: Final = frozenset(
    {"OR", "AND", "COMPARE", "PLUS", "MINUS", "STAR", "SLASH", "CARET", "QMARK", "TILDE", "NOT"}
)
_FOREIGN: Final = {
    "if": "a choice is written `branch (…) { … } else { … }`",
    "while": "`loop { … }` repeats until the session ends; leave it with `branch (…) { end; }`",
    "for": "`loop { … }` repeats until the session ends; leave it with `branch (…) { end; }`",
    "return": "a session ends with `end;`",
    "break": "a loop is left with `end;`, which ends the session",
    "wait": "to let time pass, `run` work at a `delay` stage",
    "sleep": "to let time pass, `run` work at a `delay` stage",
    "cache": "`cache (…)` follows the block of a hold, before its `lease`",
    "lease": "one `lease POOL (…)` follows the block of a hold and its `cache (…)`",
    "else": "`else { … }` follows the block of a `branch`",
}
"""Words that begin no statement, at least not in this language, and what to write."""

_OPERATOR_WORDS: Final = {"and": "`a && b`", "or": "`a || b`", "not": "`!a`", "mod": "`a - b * floor(a / b)`"}
"""Operators of other languages, and what to write."""


class Situation(msgspec.Struct, frozen=True):
    """Where reading stopped."""

    source: SourceFile
    token: Token
    """The first token that does not fit; ``$END`` at the end of the text."""
    before: list[Token]
    """The tokens in front of it, back to where its statement, option or item began, and one more."""
    opened: Token | None
    """The `{` of the innermost open block."""
    misplaced: tuple[Token, Token] | None
    """A `{` and the `}` that closed it, although it is indented like something around them."""
    accepted: set[str]
    """The terminals that would fit."""
    starts_line: bool

    @property
    def misses_semicolon(self) -> bool:
        """Whether a `;` was forgotten: it would fit, and what stands here begins something new."""
        begins = self.starts_line or self.token.type in ALL_STARTS | {"RBRACE"}
        return "SEMICOLON" in self.accepted and begins


def describe(at: Situation) -> Diagnostic:
    """The message about the token that does not fit."""
    place = span_of(at.token)
    if at.token.type == "$END":
        return _unfinished(at)
    with_unit = _with_unit(at)
    if with_unit is not None:
        return with_unit
    unknown = _unknown_word(at)
    if unknown is not None:
        culprit, message, help_ = unknown
        return Diagnostic("E111", message, at.source, span_of(culprit), help=help_)
    if at.misses_semicolon and at.before:
        end = span_of(at.before[-1]).end
        return Diagnostic("E112", f"`;` is missing behind `{at.before[-1]}`", at.source, Span(end, end + 1))
    special = _special(at)
    if special is not None:
        return Diagnostic("E110", special[0], at.source, place, help=special[1])
    message = f"expected {phrase(at.accepted)}, found `{at.token}`"
    return Diagnostic("E110", message, at.source, place, help=_instead(at))


_SECONDS: Final = {
    **dict.fromkeys(("ns", "nsec"), "1e-9"),
    **dict.fromkeys(("us", "µs", "usec"), "1e-6"),
    **dict.fromkeys(("ms", "msec"), "0.001"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "1"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "60"),
    **dict.fromkeys(("h", "hour", "hours"), "3600"),
}
"""Units of time, and the seconds of each."""

_FACTORS: Final = {
    **dict.fromkeys(("k", "kB", "KB"), "1000"),
    **dict.fromkeys(("K", "Ki", "KiB"), "1024"),
    **dict.fromkeys(("M", "MB"), "1e6"),
    **dict.fromkeys(("G", "GB", "B"), "1e9"),
    **dict.fromkeys(("T", "TB"), "1e12"),
    **dict.fromkeys(("Mi", "MiB"), "1048576"),
    **dict.fromkeys(("Gi", "GiB"), "1073741824"),
}
"""What people write behind large numbers, and the factor that is meant; `K` as vLLM reads it."""


def _with_unit(at: Situation) -> Diagnostic | None:
    """A number with a unit behind it, such as `40ms`: a mistake of its own."""
    number = at.before[-1] if at.before else None
    word = str(at.token)
    if number is None or number.type != "NUMBER" or not word[:1].isalpha() or word in "eE":
        return None
    if number.end_pos != at.token.start_pos or (number.value == "0" and word[0] in "xXbBoO"):
        return None
    seconds, factor = _SECONDS.get(word), _FACTORS.get(word)
    help_ = "write the number alone, in the unit of what it stands for; times are in seconds"
    if seconds is not None:
        help_ = f"times are in seconds: write `{_times(number.value, seconds)}`"
    elif factor is not None:
        help_ = f"write `{_times(number.value, factor)}`"
    span = Span(span_of(number).start, span_of(at.token).end)
    return Diagnostic("E110", f"`{number}{word}`: a number has no unit", at.source, span, help=help_)


def _times(number: str, factor: str) -> str:
    """The product as a program writes it: 40 times 0.001 is `0.04`."""
    product = Decimal(number) * Decimal(factor)
    plain = f"{product:f}"
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return plain if len(plain) <= _LONGEST_NUMBER else f"{float(product):g}"


_LONGEST_NUMBER: Final = 12


def _unfinished(at: Situation) -> Diagnostic:
    if at.opened is not None and at.misplaced is not None:
        opening, closing = at.misplaced
        line, _ = at.source.position(span_of(closing).start)
        message = f"this block is not closed: by the indentation, its `}}` is missing before line {line}"
        return Diagnostic("E113", message, at.source, span_of(opening))
    if at.opened is not None:
        message = "this block is not closed: the text ends before its `}`"
        return Diagnostic("E113", message, at.source, span_of(at.opened))
    message = f"the text ends too early: expected {phrase(at.accepted)}"
    end = span_of(at.before[-1]).end if at.before else 0
    return Diagnostic("E113", message, at.source, Span(end, end + 1))


def _special(at: Situation) -> tuple[str, str | None] | None:
    """Mistakes with an explanation of their own."""
    kind, accepted = at.token.type, at.accepted
    after_block = bool(at.before) and at.before[-1].type == "RBRACE"
    if kind == "COMPARE" and "AND" in accepted:
        return "comparisons do not chain", "write `a < b && b < c`"
    if kind == "EQUAL" and "COMPARE" in accepted:
        return "`=` assigns and cannot stand in an expression", "comparison is `==`"
    if kind == "SEMICOLON" and after_block:
        return "a `;` does not follow this block", "remove it; there is no empty statement"
    if kind == "SEMICOLON" and accepted & PLACEHOLDERS.keys():
        return "nothing stands before this `;`", "remove it; there is no empty statement"
    if kind == "RBRACE" and "BAD_ITEM" in accepted:
        return "this `}` closes nothing", None
    return None


def _instead(at: Situation) -> str | None:
    """What to write in place of something that other languages have."""
    kind, before = at.token.type, at.before[-1] if at.before else None
    for word in (at.token, before):
        if word is not None and word.value in _OPERATOR_WORDS and kind != "SEMICOLON":
            return f"write {_OPERATOR_WORDS[word.value]}"
    if before is None:
        return None
    if kind == "STAR" and before.type == "STAR":
        return "a power is written `a ^ b`"
    if kind == "BRANCH" and before.type == "ELSE":
        return "write `else { branch … }`"
    if kind in {"CACHE", "LEASE"} and "LBRACE" in at.accepted:
        return _FOREIGN[at.token.value]
    if before.value == "0" and at.token.value[:1] in "xXbBoO" and before.end_pos == at.token.start_pos:
        return "numbers are decimal"
    return None


def _unknown_word(at: Situation) -> tuple[Token, str, str | None] | None:
    """A word where only certain words can stand, such as a misspelt option."""
    first = _first_word(at)
    if first is not None:
        help_ = _FOREIGN.get(first.value) or _nearest(first.value, STATEMENT_WORDS)
        if at.token.type == "EQUAL":
            help_ = f"an assignment is written `set {first} = …`"
        return first, f"`{first}` does not begin a statement", help_
    word = str(at.token)
    if not word[:1].isidentifier():
        return None
    for placeholder, (what, words) in PLACEHOLDERS.items():
        if placeholder in at.accepted:
            help_ = _home(word) or _nearest(word, words) or f"one begins with {_words(words)}"
            return at.token, f"`{word}` does not begin {what}", help_
    if at.accepted and not at.accepted & (_PUNCTUATION.keys() | {"NAME", "NUMBER"}):
        words = tuple(sorted(name.lower() for name in at.accepted))
        return at.token, f"expected {_words(words)}, found `{word}`", _nearest(word, words)
    return None


def _home(word: str) -> str | None:
    """Where a word that begins something else belongs."""
    if word in _FOREIGN:
        return _FOREIGN[word]
    if word in STATEMENT_WORDS:
        return f"`{word}` begins a statement; statements stand in `session {{ … }}`"
    if word in _ITEMS:
        return f"`{word}` begins an item of a program; items stand outside of all braces"
    return None


def _first_word(at: Situation) -> Token | None:
    """The word that a statement begins with, where it was read as the use of a def and cannot be one."""
    if len(at.before) < 2 or at.before[1].type != "NAME" or at.before[0].type not in _BOUNDARIES:
        return None
    bare = len(at.before) == 2 and at.accepted == {"LPAR"}
    blocked = at.token.type == "LBRACE" and at.before[-1].type == "RPAR" and at.accepted == {"SEMICOLON"}
    return at.before[1] if bare or blocked else None


_BOUNDARIES: Final = frozenset({"SEMICOLON", "LBRACE", "RBRACE"})


def statement_before(tokens: list[Token], index: int) -> list[Token]:
    """The tokens in front of one, back to the boundary of its statement and that boundary itself."""
    start = index
    while start > 0 and index - start < 50:
        start -= 1
        if tokens[start].type in _BOUNDARIES and start < index - 1:
            break
    return tokens[start:index]


def _nearest(word: str, words: Iterable[str]) -> str | None:
    near = closest(word, words)
    return f"did you mean `{near}`?" if near else None


def phrase(accepted: set[str]) -> str:
    """A set of terminals as a person would say it."""
    parts = [what for placeholder, (what, _) in PLACEHOLDERS.items() if placeholder in accepted]
    names = accepted - _OPERATORS - PLACEHOLDERS.keys() - {"$END", "NUMBER", "NAME"}
    if parts:
        names &= _PUNCTUATION.keys()
    elif "NUMBER" in accepted:
        parts.append("an expression")
    elif "NAME" in accepted:
        parts.append("a name")
    if "NAME" in accepted:
        names &= _PUNCTUATION.keys() - {"LPAR"}
    parts.extend(f"`{_PUNCTUATION.get(name) or name.lower()}`" for name in sorted(names, key=_rank))
    if not parts:
        parts.append("an operator" if accepted & _OPERATORS else "the end of the text")
    return ", ".join(parts[:-1]) + " or " + parts[-1] if len(parts) > 1 else parts[0]


def _rank(name: str) -> tuple[bool, str]:
    return name in _PUNCTUATION, name


def _words(words: Iterable[str]) -> str:
    quoted = [f"`{word}`" for word in words]
    return ", ".join(quoted[:-1]) + " or " + quoted[-1] if len(quoted) > 1 else quoted[0]
