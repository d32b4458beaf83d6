"""Highlighting for whatever uses Pygments: rich, Sphinx, MkDocs, notebooks. ``serq`` is the lexer's name."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from serq.tools.words import CALLABLE, DECLARATIONS, KEYWORDS, OPTIONS, READINGS

_WORD = r"[^\W\d]\w*"


class SerqLexer(RegexLexer):  # type: ignore[misc]
    """Tokens of a program; a word has the colour of its most frequent use, since every word may be a name."""

    name = "serq"
    aliases: ClassVar[list[str]] = ["serq", "sq"]
    filenames: ClassVar[list[str]] = ["*.sq"]
    url = "docs/language.md"

    tokens: ClassVar[dict[str, list[object]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"/\*(?s:.)*?\*/", Comment.Multiline),
            (r'"[^"\n]*"', String),
            (r"(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?", Number),
            (rf"(~)(\s*)({_WORD})", bygroups(Operator, Whitespace, Name.Builtin.Pseudo)),
            (
                rf"(let|def|pool|stage|executor|connector|gauge|set|observe)(\s+)({_WORD})(?=\s*[\[(=:{{])",
                bygroups(Keyword.Declaration, Whitespace, Name.Variable),
            ),
            (words(sorted(CALLABLE - KEYWORDS), suffix=r"(?=\s*\()"), Name.Builtin),
            (words(sorted(OPTIONS - KEYWORDS), prefix=r"\b", suffix=r"\b(?=\s+[\w\"({~-])"), Name.Attribute),
            (words(sorted(DECLARATIONS), prefix=r"\b", suffix=r"\b"), Keyword.Declaration),
            (words(sorted(KEYWORDS - DECLARATIONS), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(sorted(READINGS - KEYWORDS), prefix=r"\b", suffix=r"\b"), Name.Builtin.Pseudo),
            (words(sorted(CALLABLE - KEYWORDS), prefix=r"\b", suffix=r"\b"), Name.Builtin),
            (r"\b(true|false)\b", Keyword.Constant),
            (_WORD, Name),
            (r"<=|>=|==|!=|\|\||&&|[-+*/^<>!?~=:]", Operator),
            (r"[{}()\[\];,]", Punctuation),
            (r".", Error),
        ]
    }
