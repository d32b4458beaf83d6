"""From text to the parser's tree, past every mistake that can be stepped over.

The tables are those of Lark's LALR(1) parser; the loop over the tokens stands here, because a mistake must
not end it. An unreadable statement, item or option becomes a BAD_… token (see ``serq.lark``), and reading
goes on behind it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from lark import Token, Tree, UnexpectedToken
from lark.parsers.lalr_parser_state import ParserState

from serq.grammar import expected, tables
from serq.grammar.nesting import too_deep
from serq.grammar.tokens import Tokens, span_of, tokenize
from serq.source import Diagnostic, SourceFile, Span

MAX_MISTAKES = 25
"""Syntax errors after which a text is given up: it is hardly a program."""


class Parsed(msgspec.Struct):
    """The tree of a text, and what was wrong with it.

    ``skipped`` holds the names in the parts that could not be read: they may have been declared there.
    """

    tree: Tree[Token] | None
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    skipped: set[str] = msgspec.field(default_factory=set)


def parse(source: SourceFile) -> Parsed:
    """Read a text. The tree is None where nothing could be made of it."""
    lexed = tokenize(source, tables.load())
    if not lexed.readable_to_the_end:
        return Parsed(None, lexed.diagnostics)
    parsed = _Parser(source, lexed).run()
    deep = parsed.tree and too_deep(source, parsed.tree)
    if deep:
        parsed.diagnostics.append(deep)
        parsed.tree = None
    return parsed


class _Parser:
    def __init__(self, source: SourceFile, lexed: Tokens) -> None:
        self._source = source
        self._lexed = lexed
        end = len(source.text)
        self._tokens = [*lexed.tokens, Token("$END", "", end, end_pos=end)]
        self._state: ParserState[Any] = tables.load().parse_interactive().parser_state
        self._states = self._state.parse_conf.parse_table.states
        self._next = 0
        self._open: list[int] = []
        self._misplaced: tuple[Token, Token] | None = None
        """The first `{` whose `}` is indented less than its line and so was meant for another; that `}`."""
        self._parsed = Parsed(None, lexed.diagnostics)
        self._mistakes = 0

    def run(self) -> Parsed:
        """Feed token after token; at a mistake, recover."""
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            try:
                result = self._state.feed_token(token, token.type == "$END")
            except UnexpectedToken:
                if not self._recover(token):
                    return self._parsed
                continue
            self._advance()
            if token.type == "$END":
                self._parsed.tree = result
        return self._parsed

    def _advance(self) -> None:
        token = self._tokens[self._next]
        if token.type == "LBRACE":
            self._open.append(self._next)
        elif token.type == "RBRACE" and self._open:
            opening = self._tokens[self._open.pop()]
            outside = self._starts_line(self._next) and self._indentation(token) < self._indentation(opening)
            if outside and self._misplaced is None:
                self._misplaced = opening, token
        self._next += 1

    # --- mistakes ---

    def _recover(self, token: Token) -> bool:
        """Report a mistake and find a place to go on; False where there is none."""
        self._mistakes += 1
        at = expected.Situation(
            source=self._source,
            token=token,
            before=expected.statement_before(self._tokens, self._next),
            opened=self._tokens[self._open[-1]] if self._open else None,
            misplaced=self._misplaced,
            accepted=self._accepted(),
            starts_line=self._starts_line(self._next),
        )
        if token.type == "$END" and self._open and self._misplaced is not None:
            self._forget_mistakes_behind(span_of(self._misplaced[1]).start)
        if self._next not in self._lexed.gaps:
            found = expected.describe(at)
            if found not in self._parsed.diagnostics[-1:]:  # a `;` was put in, and that did not help
                self._parsed.diagnostics.append(found)
        if token.type == "$END" or self._mistakes >= MAX_MISTAKES:
            return False
        if at.misses_semicolon:
            self._state.feed_token(Token("SEMICOLON", ";", token.start_pos, end_pos=token.start_pos))
            return True
        placeholder = self._pop_to_list()
        self._skip(placeholder)
        self._state.feed_token(Token(placeholder, "", token.start_pos, end_pos=token.start_pos))
        return True

    def _forget_mistakes_behind(self, offset: int) -> None:
        """Behind a missing `}` everything was read as part of a block that it is not in."""
        reading = {"E110", "E111", "E112"}
        self._parsed.diagnostics[:] = [
            wrong
            for wrong in self._parsed.diagnostics
            if wrong.code not in reading or wrong.span is None or wrong.span.start < offset
        ]

    def _accepted(self) -> set[str]:
        """The terminals that would be read here."""
        stack = self._state.state_stack
        return {name for name in self._states[stack[-1]] if name.isupper() and self._would_read(stack, name)}

    def _would_read(self, stack: list[Any], terminal: str) -> bool:
        """Whether the parser in this state would take the terminal, going through its reductions."""
        stack = list(stack)
        while True:
            action = self._states[stack[-1]].get(terminal)
            if action is None:
                return False
            kind, target = action
            if kind.name == "Shift":
                return True
            if len(target.expansion):
                del stack[-len(target.expansion) :]
            stack.append(self._states[stack[-1]][target.origin.name][1])

    def _pop_to_list(self) -> str:
        """Forget what was read of the statement, option or item; what may stand in its place."""
        state, values = self._state.state_stack, self._state.value_stack
        while True:
            for placeholder in expected.PLACEHOLDERS:
                if placeholder in self._states[state[-1]] and self._would_read(state, placeholder):
                    return placeholder
            state.pop()
            self._note_names(values.pop())

    def _note_names(self, value: Token | Tree[Token]) -> None:
        if isinstance(value, Token):
            self._parsed.skipped.add(str(value))
            return
        tokens = value.scan_values(lambda leaf: isinstance(leaf, Token))
        self._parsed.skipped.update(str(token) for token in tokens)

    def _skip(self, placeholder: str) -> None:
        """Pass over the rest of what cannot be read: to its `;`, its closing brace, or a fresh start.

        What follows and begins something else than can stand here has the same cause, such as a brace too
        many, and is passed over as well.
        """
        starts = expected.STARTS[placeholder]
        top_level = placeholder == "BAD_ITEM"
        strayed = expected.ALL_STARTS - starts | ({"RBRACE"} if top_level else set())
        depth = 0
        first = self._next
        while (token := self._tokens[self._next]).type != "$END":
            at_start = depth == 0 and self._next > first and self._starts_line(self._next)
            if at_start and token.type in starts:
                return
            if token.type == "RBRACE":
                if depth == 0 and not top_level:
                    return
                depth = max(0, depth - 1)
            depth += token.type == "LBRACE"
            if str(token).isidentifier():
                self._parsed.skipped.add(str(token))
            self._next += 1
            ended = token.type == "SEMICOLON" or (
                token.type == "RBRACE" and self._tokens[self._next].type not in expected.AFTER_BLOCK
            )
            if ended and depth == 0 and self._tokens[self._next].type not in strayed:
                return

    def _indentation(self, token: Token) -> int:
        """The column of the first character on the line of a token."""
        line, _ = self._source.position(span_of(token).start)
        text = self._source.line(line)
        return len(text) - len(text.lstrip())

    def _starts_line(self, index: int) -> bool:
        if index == 0:
            return True
        between = Span(span_of(self._tokens[index - 1]).end, span_of(self._tokens[index]).start)
        return "\n" in self._source.text[between.start : between.end]
