"""The formatter: a program's text in its usual form.

What goes out has the words that came in, in their order, so it means the same; the formatter decides about
the white space between them alone, and takes every comment along. It goes in steps, each a module: the
parser's tokens are cut into words and gaps (``format_words``), the parser's tree says what belongs together
(``format_syntax``), style makes a document of it (``format_layout``), which is written line by line
(``format_document``, ``format_page``).
"""

from __future__ import annotations

from serq.errors import CompileError
from serq.grammar import tables
from serq.grammar.format_document import render
from serq.grammar.format_layout import Layout
from serq.grammar.format_syntax import Syntax
from serq.grammar.format_words import cut
from serq.grammar.parser import parse
from serq.source import SourceFile


def format_source(source: SourceFile) -> str:
    """The program in its usual form (docs/formatting.md); formatting that again changes nothing.

    Raises:
        CompileError: the text cannot be parsed; names need not be known, as nothing is linked.
    """
    parsed = parse(source)
    if parsed.diagnostics or parsed.tree is None:
        raise CompileError(parsed.diagnostics)
    tokens = list(tables.load().lex(source.text))
    words = cut(source.text, tokens)
    syntax = Syntax(words, parsed.tree, tokens)
    return render(Layout(words, syntax).program(), words)
