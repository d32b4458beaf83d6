"""examples/vendors: vllm-ascend's waiting lanes select in the order that its queue would."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import serq
from tests.shared import ROOT, shared

ASCEND = ROOT / "examples" / "vendors" / "ascend.sq"
AGING = [0, 4, 1, 5, 2, 3]
NO_AGING = [0, 4, 2, 3, 1, 5]


def seed_program() -> str:
    """The program printed in the document that the example answers."""
    text = shared("seeds", "001_afb461e6b4632238.txt").read_text("utf-8")
    found = re.search(r"^// FCFS lanes .*?^run \{ horizon 1; \}$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(("sets", "order"), [({}, AGING), ({"max_wait": 0}, NO_AGING)])
def test_ascend_lanes(sets: dict[str, float], order: list[int]) -> None:
    report = serq.run(serq.compile(ASCEND, sets=sets))
    assert report.records.series["selected"].values == order
    assert report.records.ended == 6


@pytest.mark.parametrize(("sets", "order"), [({}, AGING), ({"max_wait": 0}, NO_AGING)])
def test_the_printed_program_runs_unchanged(sets: dict[str, float], order: list[int]) -> None:
    report = serq.run(serq.compile(source=seed_program(), sets=sets))
    assert report.records.series["selected"].values == order
    assert report.records.ended == 6 and not report.warnings


def test_ascend_times_follow_from_the_steps() -> None:
    """One step of 1 ms computes 128 tokens: 64 and 256 prompt tokens take 1 and 2, an output token 1."""
    series = serq.run(ASCEND).records.series
    milliseconds = dict(
        zip(series["selected"].values, (round(t * 1000) for t in series["ttft"].times), strict=True)
    )
    # 0 prefills until 1 and decodes three times until 4, then 4 (5), 1 (7), 5 (9), 2 (10), 3 (11)
    assert milliseconds == {0: 1, 4: 5, 1: 7, 5: 9, 2: 10, 3: 11}


def test_a_cold_start_takes_a_fraction_of_a_second() -> None:
    code = (
        "import sys, time\n"
        "from serq.cli import main\n"
        f"main(['run', {str(ASCEND)!r}], standalone_mode=False)\n"
        "assert not {'numpy', 'pandas', 'matplotlib', 'rich', 'torch'} & set(sys.modules)\n"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout.splitlines()[-1]) < 0.7
