"""No file and no function grows past what a person can take in at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.shared import ROOT

FILE_LINES = 400
FUNCTION_LINES = 60
FOLDERS = ("serq", "tests", "benchmarks", "examples", "docs")


def python_files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_files_stay_short() -> None:
    counts = {path.relative_to(ROOT): len(path.read_text("utf-8").splitlines()) for path in python_files()}
    too_long = {str(path): lines for path, lines in counts.items() if lines > FILE_LINES}
    assert not too_long, f"longer than {FILE_LINES} lines; split by what a reader looks for: {too_long}"


def test_functions_stay_short() -> None:
    too_long = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": length(function)
        for path in python_files()
        for function in functions(ast.parse(path.read_text("utf-8")))
        if length(function) > FUNCTION_LINES
    }
    assert not too_long, f"longer than {FUNCTION_LINES} lines; name the steps: {too_long}"
