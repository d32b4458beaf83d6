"""The grammar that VS Code colours programs with; ``python -m serq.tools.textmate`` writes it anew."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from serq.tools.words import CALLABLE, DECLARATIONS, DRAWS, KEYWORDS, OPTIONS, READINGS

GRAMMAR_FILE: Final = Path(__file__).parents[2] / "editors" / "vscode" / "syntaxes" / "serq.tmLanguage.json"

_NUMBER: Final = r"(?<!\w)(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"


def _any_of(words: Iterable[str], before: str = r"\b", after: str = r"\b") -> str:
    return f"{before}(?:{'|'.join(sorted(words))}){after}"


def grammar() -> dict[str, Any]:
    """The TextMate grammar, as plain data."""
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "serq",
        "scopeName": "source.serq",
        "fileTypes": ["sq"],
        "patterns": [
            {"name": "comment.line.double-slash.serq", "match": "//.*$"},
            {"name": "comment.block.serq", "begin": r"/\*", "end": r"\*/"},
            {"name": "string.quoted.double.serq", "match": r'"[^"\n]*"'},
            {"name": "constant.numeric.serq", "match": _NUMBER},
            {"name": "support.function.random.serq", "match": _any_of(DRAWS, r"~\s*")},
            {"name": "support.function.serq", "match": _any_of(CALLABLE - KEYWORDS, after=r"(?=\s*\()")},
            {"name": "keyword.declaration.serq", "match": _any_of(DECLARATIONS)},
            {"name": "keyword.control.serq", "match": _any_of(KEYWORDS - DECLARATIONS)},
            {"name": "variable.parameter.option.serq", "match": _any_of(OPTIONS - KEYWORDS)},
            {"name": "variable.language.serq", "match": _any_of(READINGS - KEYWORDS)},
            {"name": "constant.language.serq", "match": r"\b(?:true|false)\b"},
            {"name": "keyword.operator.serq", "match": r"<=|>=|==|!=|\|\||&&|[-+*/^<>!?~=:]"},
        ],
    }


def as_json() -> str:
    """The text of the file."""
    return json.dumps(grammar(), indent=2) + "\n"


if __name__ == "__main__":
    GRAMMAR_FILE.write_text(as_json(), "utf-8")
