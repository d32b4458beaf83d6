"""What could stand at a place instead of what stands there, in the words of the language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lark import Token

from serq.grammar.names import STATEMENT_WORDS, closest
from serq.grammar.tokens import span_of
from serq.source import Diagnostic, SourceFile, Span

_ITEMS: Final = ("let", "def", "use", "pool", "stage", "workload", "session", "server", "share", "run")
_POOL_OPTIONS: Final = ("cap", "block", "evict", "preempt", "queue", "admit", "spill")
_STEP_OPTIONS: Final = ("budget", "chunk", "cost", "memory", "serve")
_WORKLOAD_ITEMS: Final = ("arrive", "trace", "init", "turn", "hidden", "session")
_RUN_SETTINGS: Final = ("horizon", "warmup", "seed", "arrivals")

PLACEHOLDERS: Final = {
    "BAD_STATEMENT": ("a statement", STATEMENT_WORDS),
    "BAD_POOL_OPTION": ("an option of a pool", _POOL_OPTIONS),
    "BAD_STEP_OPTION": ("an option of a step stage", _STEP_OPTIONS),
    "BAD_WORKLOAD_ITEM": ("a part of the workload", _WORKLOAD_ITEMS),
    "BAD_RUN_SETTING": ("a run setting", _RUN_SETTINGS),
    "BAD_ITEM": ("an item of a program", _ITEMS),
}
"""What may stand in a list of the grammar: its name, and the words that begin one."""

STARTS: Final = {key: frozenset(word.upper() for word in words) for key, (_, words) in PLACEHOLDERS.items()}
"""Placeholder -> terminals that begin the next one of its kind."""

AFTER_BLOCK: Final = frozenset({"ELSE", "CACHE", "LEASE", "SEMICOLON"})
"""What goes on with a statement behind its block."""

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
_STATEMENT_ENDS: Final = frozenset({"SEMICOLON", "LBRACE", "RBRACE"})


def describe(
    source: SourceFile,
    token: Token,
    before: list[Token],
    opened: Token | None,
    accepted: set[str],
) -> Diagnostic:
    """The message about ``token``, which cannot be read here.

    Args:
        source: the text.
        token: the first token that does not fit; ``$END`` at the end of the text.
        before: the tokens in front of it.
        opened: the `{` of the innermost open block.
        accepted: the terminals that would fit.
    """
    place = span_of(token)
    if token.type == "$END":
        return _unfinished(source, place, opened, accepted)
    previous = before[-1] if before else None
    special = _special(token, before, accepted)
    if special is not None:
        message, help_ = special
        return Diagnostic("E110", message, source, place, help=help_)
    unknown = _unknown_word(token, before, accepted)
    if unknown is not None:
        culprit, message, help_ = unknown
        return Diagnostic("E111", message, source, span_of(culprit), help=help_)
    if accepted == {"SEMICOLON"} and previous is not None:
        end = span_of(previous).end
        return Diagnostic("E112", f"`;` is missing before `{token}`", source, Span(end, end + 1))
    return Diagnostic("E110", f"expected {phrase(accepted)}, found `{token}`", source, place)


def _unfinished(source: SourceFile, end: Span, opened: Token | None, accepted: set[str]) -> Diagnostic:
    if opened is None:
        message = f"the text ends too early: expected {phrase(accepted)}"
        return Diagnostic("E113", message, source, end)
    return Diagnostic(
        "E113", "this block is not closed: the text ends before its `}`", source, span_of(opened)
    )


def _special(token: Token, before: list[Token], accepted: set[str]) -> tuple[str, str | None] | None:
    """Mistakes with an explanation of their own."""
    if token.type == "COMPARE" and "AND" in accepted:
        return "comparisons do not chain", "write `a < b && b < c`"
    if token.type == "EQUAL" and "COMPARE" in accepted:
        return "`=` assigns and cannot stand in an expression", "comparison is `==`"
    if token.type == "SEMICOLON" and before and before[-1].type == "RBRACE":
        return "a `;` does not follow this block", "remove it; there is no empty statement"
    if token.type == "ADMIT" and "NAME" in accepted:
        return "`admit` is a word kept out of use and cannot be a name", "choose another name"
    return None


def _unknown_word(
    token: Token, before: list[Token], accepted: set[str]
) -> tuple[Token, str, str | None] | None:
    """A word where only certain words can stand, such as a misspelt option."""
    calls = accepted == {"LPAR"} and before and before[-1].type == "NAME"
    if calls and (len(before) == 1 or before[-2].type in _STATEMENT_ENDS):
        culprit = before[-1]
        return culprit, f"`{culprit}` does not begin a statement", _nearest(str(culprit), STATEMENT_WORDS)
    if not str(token)[:1].isidentifier():
        return None
    for placeholder, (what, words) in PLACEHOLDERS.items():
        if placeholder in accepted:
            help_ = _nearest(str(token), words) or f"one begins with {_words(words)}"
            return token, f"`{token}` does not begin {what}", help_
    if accepted and not accepted & (_PUNCTUATION.keys() | {"NAME", "NUMBER"}):
        words = tuple(sorted(name.lower() for name in accepted))
        return token, f"expected {_words(words)}, found `{token}`", _nearest(str(token), words)
    return None


def _nearest(word: str, words: Iterable[str]) -> str | None:
    near = closest(word, words)
    return f"did you mean `{near}`?" if near else None


def phrase(accepted: set[str]) -> str:
    """A set of terminals as a person would say it."""
    parts = [what for placeholder, (what, _) in PLACEHOLDERS.items() if placeholder in accepted]
    if not parts and "NUMBER" in accepted:
        parts.append("an expression")
    elif not parts and "NAME" in accepted:
        parts.append("a name")
    names = accepted - _OPERATORS - PLACEHOLDERS.keys() - {"$END", "NUMBER", "NAME"}
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
