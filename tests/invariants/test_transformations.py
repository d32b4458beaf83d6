"""Changes to a random program that change nothing in what it comes to (no reference needed)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import serq
from serq.errors import SerqError
from serq.results import Report
from tests.conformance.outcome import number
from tests.fuzz.comparison import trace_file
from tests.fuzz.generator import random_program
from tests.fuzz.tree import FuzzProgram, Piece
from tests.shared import ROOT

FIRST = 10_000
SEEDS = range(FIRST, FIRST + 60)
UNUSED = (
    Piece("pool unused_pool", ((Piece("cap 3"), Piece("block 2")),)),
    Piece("stage unused_fifo : fifo"),
    Piece("stage unused_engine : step", ((Piece("cost 1"),),)),
)


def ran(program: FuzzProgram, **settings: float) -> Report:
    """The report of ``program``; the test is skipped for one that is refused."""
    with trace_file(program) as trace:
        try:
            return serq.run(serq.compile(source=program.text, trace=trace, **settings))
        except SerqError as error:
            pytest.skip(f"refused: {str(error).splitlines()[0]}")


def rows(report: Report, before: float = float("inf")) -> dict[str, list[tuple[Any, ...]]]:
    """Every sample up to ``before``, by observation."""
    return {
        name: [
            (repr(row[0]), *row[1:])
            for row in zip(series.values, series.times, series.sessions, series.turns, strict=True)
            if row[1] <= before
        ]
        for name, series in report.records.series.items()
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_longer_run_begins_with_the_shorter_one(seed: int) -> None:
    program = random_program(seed)
    if "arrivals" in program.text:
        pytest.skip("a run that drains ends where it wants")
    whole = ran(program)
    half = ran(program, horizon=whole.records.horizon / 2, warmup=whole.records.warmup / 2)
    if whole.records.warmup:
        return
    assert rows(whole, before=half.records.horizon) == rows(half)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_not_used_changes_nothing(seed: int) -> None:
    program = random_program(seed)
    plain = ran(program)
    more = ran(FuzzProgram((*program.items, *UNUSED), program.trace))
    assert rows(plain) == rows(more)
    assert plain.records.events == more.records.events
    for kind in ("pools", "stages"):
        ours, theirs = plain.to_dict()[kind], more.to_dict()[kind]
        assert ours == theirs[: len(ours)]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_ir_file_runs_like_its_program(seed: int) -> None:
    program = random_program(seed)
    plain = ran(program)
    with trace_file(program) as trace:
        compiled = serq.compile(source=program.text, trace=trace)
        again = serq.Program.from_json(compiled.to_json())
        assert again.ir == compiled.ir
        report = serq.run(serq.Program(again.ir, trace_file=compiled.trace_file))
    assert report.to_json() == plain.to_json()
    assert rows(report) == rows(plain)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_pool_holds_more_than_it_has(seed: int) -> None:
    program = random_program(seed)
    report = ran(program)
    for declared, row in zip(_members(program), report.to_dict()["pools"], strict=True):
        assert number(row["mean_used"]) + number(row["mean_cached"]) <= declared + 1e-6
        assert number(row["mean_used"]) >= 0 and number(row["mean_cached"]) >= 0


def _members(program: FuzzProgram) -> list[float]:
    """The capacity of every pool member in the order of the report."""
    ir = serq.compile(source=program.text, trace=Path("unread.csv")).ir
    return [pool.capacity for pool in ir.pools for _ in range(pool.count)]


DRAWS = """
pool kv { cap 40; block 4; preempt lifo; }
stage gpu : step { budget 16; memory kv; cost 0.01 + 0.002 * tokens + ~exp(0.001); }
stage think : delay;
workload {
  arrive poisson(3);
  init { set prompt = 1 + floor(~exp(6)); set turns = 1 + floor(~uniform(0, 3)); }
  turn { set out = 1 + floor(~erlang(2, 5)); }
}
session {
  loop {
    turn;
    hold kv (min(prompt, 20)) {
      run gpu prefill (min(prompt, 20)) growing kv;
      run gpu decode (min(out, 16)) growing kv;
    } cache (prompt)
    observe finished = now;
    branch (turn_no >= turns) { end; }
    run think (~h2(1, 3));
  }
}
run { horizon 60; }
"""


def test_same_seed_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Hash seeds, dump folders and processes leave no trace in what is printed."""
    path = tmp_path / "draws.sq"
    path.write_text(DRAWS, "utf-8")
    printed = set()
    for hash_seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-m", "serq", "run", str(path), "--json", "--dump", str(tmp_path / hash_seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        dumped = (tmp_path / hash_seed / "finished.csv").read_bytes()
        printed.add((done.stdout, dumped))
    assert len(printed) == 1
    assert b'"arrivals":0' not in printed.pop()[0]


def test_the_workload_does_not_see_the_deployment() -> None:
    """Another price of a step, and draws in it, leave arrivals and lengths as they are."""
    watched = DRAWS.replace("turn;\n", "turn; observe prompts = prompt; observe outs = out;\n", 1)
    fast = serq.run(serq.compile(source=watched))
    slow = serq.run(serq.compile(source=watched.replace("0.002 * tokens + ~exp(0.001)", "0.001 * tokens")))
    assert fast.records.arrivals == slow.records.arrivals > 100
    for name in ("prompts", "outs"):
        a, b = ({(s, t): v for v, _, s, t in _samples(report, name)} for report in (fast, slow))
        common = a.keys() & b.keys()
        assert len(common) > 100
        assert all(a[key] == b[key] for key in common)


def _samples(report: Report, name: str) -> list[tuple[float, float, int, float]]:
    series = report.records.series[name]
    return list(zip(series.values, series.times, series.sessions, series.turns, strict=True))
