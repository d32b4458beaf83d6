"""From text to tokens, and the mistakes that are visible in a single token."""

from __future__ import annotations

import msgspec
from lark import Lark, Token

from serq.source import Diagnostic, SourceFile, Span

MAX_NESTING = 200
"""Brackets open at once; deeper texts are not written by people."""

_FOREIGN_QUOTES = {"'": "'", "`": "`", "“": "”", "‘": "’", "„": "“", "«": "»"}
_OPENING = {"LPAR", "LSQB", "LBRACE"}
_CLOSING = {"RPAR", "RSQB", "RBRACE"}


class Tokens(msgspec.Struct, frozen=True):
    """The tokens that a parser can read, and what was wrong with the others."""

    tokens: list[Token]
    gaps: set[int]
    """The numbers of the tokens in front of which something unreadable was left out."""
    diagnostics: list[Diagnostic]
    readable_to_the_end: bool
    """False where the rest of the text is lost, as behind a comment that is never closed."""


def span_of(token: Token) -> Span:
    """The characters of a token."""
    assert token.start_pos is not None and token.end_pos is not None
    return Span(token.start_pos, token.end_pos)


def tokenize(source: SourceFile, lark: Lark) -> Tokens:
    """All tokens of a text (R-A-001 to R-A-003); broken ones are reported and mended or left out."""
    result = Tokens([], set(), [], True)
    depth = 0
    previous: Token | None = None
    quoted: Token | None = None
    for token in lark.lex(source.text):
        if quoted is not None and span_of(token).start < span_of(quoted).end:
            continue
        quoted = _quoted(source, token)
        if quoted is not None:
            wrong = f"`{token}` does not begin a string"
            right = 'strings stand between `"`'
            result.diagnostics.append(Diagnostic("E101", wrong, source, span_of(quoted), help=right))
            result.tokens.append(quoted)
            continue
        problem = _problem(token, previous)
        previous = token
        if problem is not None:
            code, message, help_ = problem
            result.diagnostics.append(Diagnostic(code, message, source, span_of(token), help=help_))
        if token.type == "UNCLOSED_COMMENT":
            return msgspec.structs.replace(result, readable_to_the_end=False)
        if token.type == "BAD_CHARACTER":
            result.gaps.add(len(result.tokens))
            continue
        depth += (token.type in _OPENING) - (token.type in _CLOSING)
        if depth > MAX_NESTING:
            message = f"brackets are nested more than {MAX_NESTING} deep"
            result.diagnostics.append(Diagnostic("E108", message, source, span_of(token)))
            return msgspec.structs.replace(result, readable_to_the_end=False)
        result.tokens.append(_mended(token))
        if token.type == "UNCLOSED_STRING":
            result.gaps.add(len(result.tokens))
    return result


def _quoted(source: SourceFile, token: Token) -> Token | None:
    """The string that foreign quotes stand around, if they do."""
    closing = _FOREIGN_QUOTES.get(token.value) if token.type == "BAD_CHARACTER" else None
    if closing is None:
        return None
    start, inner = span_of(token).start, span_of(token).end
    end = source.text.find(closing, inner)
    if end < 0 or "\n" in source.text[inner:end]:
        return None
    return Token("STRING", f'"{source.text[inner:end]}"', start, end_pos=end + 1)


def _mended(token: Token) -> Token:
    """A token of a kind that the grammar knows, in the place of a broken one."""
    if token.type == "BAD_NUMBER":
        return Token.new_borrow_pos("NUMBER", "0", token)
    if token.type == "UNCLOSED_STRING":
        return Token.new_borrow_pos("STRING", token.value + '"', token)
    return token


def _problem(token: Token, previous: Token | None) -> tuple[str, str, str | None] | None:
    match token.type:
        case "BAD_CHARACTER":
            return _bad_character(token, previous)
        case "BAD_NUMBER":
            return "E102", f"`{token}` is not a number: it has more than one point", None
        case "UNCLOSED_STRING":
            return "E103", "this string is not closed on its line", 'end it with `"`'
        case "UNCLOSED_COMMENT":
            return "E104", "this comment is never closed", "end it with `*/`; comments do not nest"
        case _:
            return None


def _bad_character(token: Token, previous: Token | None) -> tuple[str, str, str | None] | None:
    if previous is not None and previous.type == "BAD_CHARACTER" and previous.end_pos == token.start_pos:
        return None  # one message for a run of them
    helps = {
        "#": "a comment starts with `//`",
        "%": "there is no remainder operator, `a - b * floor(a / b)` is one; 90 percent are `0.9`",
        "'": 'strings stand between `"`',
        "&": "the operator is `&&`",
        "|": "the operator is `||`",
        "=": "comparison is `==`",
        ".": "there are no dotted names; what a pool uses is `used(POOL)`",
        "−": "minus is `-`",
        "–": "minus is `-`",
        "×": "the operator is `*`",
        "÷": "the operator is `/`",
        "≤": "the operator is `<=`",
        "≥": "the operator is `>=`",
        "≠": "the operator is `!=`",
    }
    shown = f"`{token}`" if token.value.isprintable() else f"the character U+{ord(token.value):04X}"
    return "E101", f"{shown} means nothing here", helps.get(token.value)
