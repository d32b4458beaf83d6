"""The shipped tables are those of the grammar, they load at once, and read as Lark does."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import lark
from hypothesis import given
from hypothesis import strategies as st

from serq.grammar import tables
from serq.grammar.automaton import Automaton
from serq.grammar.tree import Token, Tree
from tests.conformance.recordings import recordings

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("examples/**/*.sq"), *ROOT.glob("serq/**/*.sq")])
TEXTS = [recording.path.read_text("utf-8") for recording in recordings().values()]
TEXTS += [file.read_text("utf-8") for file in FILES]


def canonical(made: tables.Tables) -> Any:
    """The tables with states numbered in the order of reaching them, which the grammar determines."""
    numbers, waiting, rows = {made.start: 0}, [made.start], []
    for state in waiting:
        row: dict[str, Any] = {}
        for symbol, action in sorted(made.states[state].items()):
            if action >= 0 and action not in numbers:
                numbers[action] = len(numbers)
                waiting.append(action)
            row[symbol] = numbers[action] if action >= 0 else made.rules[~action]
        rows.append(row)
    return rows, numbers[made.end], made.pattern, made.words, made.ignored


def test_the_shipped_tables_are_those_of_the_grammar() -> None:
    assert canonical(tables.make()) == canonical(tables.load()), "run `python -m serq.grammar`"


@cache
def reference() -> lark.Lark:
    return tables.read_grammar()


def words_of_lark(text: str) -> list[Any]:
    return [(token.type, str(token), token.start_pos, token.end_pos) for token in reference().lex(text)]


def as_lark_reads_it(text: str) -> Any:
    """The tree in plain words; the number of the first token that may not stand where it does."""
    try:
        return plain_of_lark(reference().parse(text))
    except lark.UnexpectedToken as error:
        return error.token.start_pos if error.token.type != "$END" else len(text)


def plain_of_lark(node: Any) -> Any:
    if not isinstance(node, lark.Tree):
        return node
    place = None if node.meta.empty else (node.meta.start_pos, node.meta.end_pos)
    return node.data, place, [plain_of_lark(child) for child in node.children]


def as_we_read_it(text: str) -> Any:
    automaton = Automaton(tables.load())
    for token in (*tables.load().lex(text), Token("$END", "", len(text), len(text))):
        if not automaton.read(token):
            return token.start_pos
    return plain(automaton.tree)


def plain(node: Any) -> Any:
    if not isinstance(node, Tree):
        return node
    place = None if node.start_pos is None else (node.start_pos, node.end_pos)
    return node.data, place, [plain(child) for child in node.children]


def test_programs_are_read_as_lark_reads_them() -> None:
    assert len(TEXTS) > 300
    for text in TEXTS:
        assert [(t.type, t, t.start_pos, t.end_pos) for t in tables.load().lex(text)] == words_of_lark(text)
        assert as_we_read_it(text) == as_lark_reads_it(text)


PIECES = st.sampled_from(
    [
        *"()[]{};,?:=<>+-*/^!~.@#'\"\n\t é", "||", "&&", "<=", "//x\n", "/*", "*/", "1e5", "1.2.3", ".5", "x",
        *sorted(tables.load().words),
    ]
)


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.lists(PIECES, max_size=30).map("".join))
def test_so_is_any_text(text: str) -> None:
    assert [(t.type, t, t.start_pos, t.end_pos) for t in tables.load().lex(text)] == words_of_lark(text)
    assert as_we_read_it(text) == as_lark_reads_it(text)


@given(st.data())
def test_so_is_a_program_with_a_word_too_many_or_too_few(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    words = list(tables.load().lex(text))
    cut = data.draw(st.sampled_from(words))
    changed = text[: cut.start_pos] + data.draw(st.just("") | PIECES) + text[cut.end_pos :]
    assert as_we_read_it(changed) == as_lark_reads_it(changed)


LOADING = """
import time
from serq.grammar import tables
start = time.process_time()
tables.load()
print(time.process_time() - start)
"""


def test_loading_takes_less_than_a_twentieth_of_a_second() -> None:
    # in a process of its own, as the heap of a long test run makes every allocation slow
    command = [sys.executable, "-c", LOADING]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < 0.05


def test_lark_is_needed_for_making_tables_only(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.sq"
    wrong.write_text("stage s : fifo(2)\nsession { run s (3) }")
    code = (
        "import sys; sys.modules['lark'] = None\n"
        "from serq.cli import main\n"
        f"main(['check', {str(wrong)!r}], standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "`;` is missing behind" in done.stderr, done.stderr
