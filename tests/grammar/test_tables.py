"""The shipped parsing tables are those of the grammar, and they load at once."""

from __future__ import annotations

import io
import subprocess
import sys
import zlib
from typing import Any

from lark import Lark

from serq.grammar import tables


def canonical(lark: Lark) -> Any:
    """The automaton with its states numbered in the order of reaching them, which the grammar determines."""
    table = lark.parser.parser._parse_table  # type: ignore[attr-defined]
    start = table.start_states["program"]
    numbers, waiting, rows = {start: 0}, [start], []
    while waiting:
        state = waiting.pop(0)
        row = {}
        for symbol, (action, target) in sorted(table.states[state].items()):
            if action.name == "Shift":
                if target not in numbers:
                    numbers[target] = len(numbers)
                    waiting.append(target)
                row[symbol] = numbers[target]
            else:
                row[symbol] = (
                    repr(target.origin),
                    repr(target.expansion),
                    target.alias,
                    repr(target.options),
                )
        rows.append(row)
    terminals = sorted((t.name, t.pattern.to_regexp(), t.priority) for t in lark.terminals)
    return rows, terminals, sorted(lark.lexer_conf.ignore)


def test_the_shipped_tables_are_those_of_the_grammar() -> None:
    made = Lark.load(io.BytesIO(zlib.decompress(tables.make())))
    assert canonical(made) == canonical(tables.load()), "run `python -m serq.grammar`"


LOADING = """
import time
from serq.grammar import tables
start = time.process_time()
tables.load()
print(time.process_time() - start)
"""


def test_loading_takes_less_than_a_tenth_of_a_second() -> None:
    # in a process of its own, as the heap of a long test run makes every allocation slow
    command = [sys.executable, "-c", LOADING]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < 0.1
