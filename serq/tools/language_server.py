"""`serq lsp`: what an editor asks about a program: mistakes, the meaning of a word, where a name is made.

The protocol is pygls' (`pip install 'serq[lsp]'`); what is answered comes from the compiler and stands in
plain functions, so it is tested without an editor. Positions are counted from 0, as in the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlparse

from serq.errors import CompileError, DataError
from serq.grammar import link_program, tables
from serq.grammar.tokens import span_of, tokenize
from serq.source import Diagnostic, SourceFile, Span, read_text
from serq.tools.meanings import meaning

if TYPE_CHECKING:
    from lark import Token
    from pygls.lsp.server import LanguageServer

_MAKES_A_NAME: Final = frozenset(
    {"let", "def", "pool", "stage", "executor", "connector", "gauge", "set", "observe", "choose"}
)


class Range(NamedTuple):
    """From (line, column) up to and without (line, column), from 0."""

    start: tuple[int, int]
    end: tuple[int, int]


class Found(NamedTuple):
    """A diagnostic of the text itself; one of a file that it uses stands at its first line."""

    range: Range
    diagnostic: Diagnostic


def diagnostics(text: str, path: Path | None) -> list[Found]:
    """The mistakes and warnings of a program that is being edited; ``path`` is where its files are found."""
    source = SourceFile("<editor>" if path is None else str(path), text)
    try:
        found = link_program(source, loader=None if path is None else _load).warnings
    except CompileError as error:
        found = error.diagnostics
    except DataError as error:
        found = (Diagnostic("E000", str(error)),)
    return [Found(_range_of(item, source), item) for item in found]


def _load(name: str, user: SourceFile) -> SourceFile:
    file = Path(user.name).parent / name
    return SourceFile(str(file), read_text(file, "program"))


def _range_of(item: Diagnostic, source: SourceFile) -> Range:
    if item.source is None or item.span is None or item.source.text != source.text:
        return Range((0, 0), (0, 0))
    return _range(source, item.span)


def _range(source: SourceFile, span: Span) -> Range:
    start, end = source.position(span.start), source.position(span.end)
    return Range((start[0] - 1, start[1] - 1), (end[0] - 1, end[1] - 1))


def hover(text: str, line: int, column: int) -> str | None:
    """What the word at a position means, as Markdown; None where there is none or the program made it."""
    source = SourceFile("<editor>", text)
    token = _token_at(source, line, column)
    if token is None:
        return None
    made = definition(text, line, column)
    if made is not None:
        return f"```serq\n{source.line(made.start[0] + 1).strip()}\n```"
    return meaning(token.value)


def definition(text: str, line: int, column: int) -> Range | None:
    """Where the name at a position is made: its `let`, `def`, pool, stage, …, or the first `set` of it."""
    source = SourceFile("<editor>", text)
    token = _token_at(source, line, column)
    if token is None:
        return None
    for name in _names_made(source):
        if name.value == token.value:
            return _range(source, span_of(name))
    return None


def _names_made(source: SourceFile) -> Iterator[Token]:
    """The names behind the words that make one, in order of the text; a request makes its handle."""
    tokens = tokenize(source, tables.load()).tokens
    for place in range(1, len(tokens)):
        before, token = tokens[place - 1], tokens[place]
        made = before.value in _MAKES_A_NAME and _is_word(token)
        following = tokens[place + 1].value if place + 1 < len(tokens) else ""
        if made or (before.value == "request" and _is_word(token) and following == "on"):
            yield token


def _is_word(token: Token) -> bool:
    return str(token)[:1].isalpha() or str(token)[:1] == "_"


def _token_at(source: SourceFile, line: int, column: int) -> Token | None:
    """The word at a position, or just before it, where the cursor stands behind it."""
    for token in tokenize(source, tables.load()).tokens:
        span = _range(source, span_of(token))
        if _is_word(token) and span.start <= (line, column) <= span.end:
            return token
    return None


# --- the protocol -------------------------------------------------------------------------------------------


def make_server() -> LanguageServer:
    """A server that answers with the functions above."""
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    from serq import __version__

    server = LanguageServer("serq", __version__)

    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        found = diagnostics(document.source, _path(uri))
        items = [_as_protocol(types, item) for item in found]
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=items))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        text = server.workspace.get_text_document(params.text_document.uri).source
        shown = hover(text, params.position.line, params.position.character)
        if shown is None:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, shown))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(params: types.DefinitionParams) -> types.Location | None:
        uri = params.text_document.uri
        text = server.workspace.get_text_document(uri).source
        found = definition(text, params.position.line, params.position.character)
        return None if found is None else types.Location(uri, _protocol_range(types, found))

    return server


def _path(uri: str) -> Path | None:
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def _as_protocol(types: Any, found: Found) -> Any:
    severity = types.DiagnosticSeverity
    item = found.diagnostic
    parts = [item.message, *([f"help: {item.help}"] if item.help else []), *item.notes]
    return types.Diagnostic(
        range=_protocol_range(types, found.range),
        message="\n".join(parts),
        severity=severity.Error if item.severity == "error" else severity.Warning,
        code=item.code,
        source="serq",
    )


def _protocol_range(types: Any, found: Range) -> Any:
    return types.Range(types.Position(*found.start), types.Position(*found.end))
