"""What a folder tells of a run that was killed, and why a run was on the clock."""

import shutil
from pathlib import Path

import pytest

from serq.results.page import as_page
from serq.results.run_folder import description, read_run
from serq.runtime.open_run.leaving import ClockReason
from tests.results.run_folder.test_run_folder import PROGRAM, as_if_killed, write


def test_a_killed_run_says_what_it_was(tmp_path: Path) -> None:
    """What engines are matched with and what steps cost is known from the program alone."""
    text = PROGRAM + "slo ttft p99 < 1000;"
    whole = write(tmp_path / "run", text, rows=400)
    killed = as_if_killed(tmp_path / "run", text)
    said, expected = ({line.about: line.says for line in r.contents.opening} for r in (killed, whole))
    assert said["matched"] == expected["matched"] == "vLLM 0.27.1"
    assert "expression" in said["costs"] and "`slow`" in said["costs"]
    (row,) = killed.answers.objectives
    assert row.met and row.requests == whole.answers.objectives[0].requests


def test_a_killed_run_whose_engines_wrote_no_step(tmp_path: Path) -> None:
    write(tmp_path / "run", PROGRAM, rows=400)
    shutil.rmtree(tmp_path / "run" / "steps")
    killed = as_if_killed(tmp_path / "run", PROGRAM + "slo ttft p99 < 1000;")
    assert {row.name for row in killed.records.engines} == {"engine", "priced", "slow"}
    assert killed.answers.objectives[0].met


@pytest.mark.parametrize(
    ("cost", "reason"),
    [("1", None), ("1 + ~exp(1)", ClockReason.ENGINE.value)],
)
def test_why_a_run_was_on_the_clock_is_kept(tmp_path: Path, cost: str, reason: str | None) -> None:
    text = f"""
    stage e : vllm {{ num_gpu_blocks 60; max_model_len 400; cost {cost}; }}
    workload {{ arrive batch(2); }} session {{ request r on e (20, 3); }} run {{ horizon 20; }}
    """
    written = write(tmp_path / "run", text)
    kept = read_run(tmp_path / "run")
    assert written.clock_reason == kept.clock_reason == reason
    assert ("was on the clock" in as_page(kept, "run")) == (reason is not None)
    found = description.read(tmp_path / "run")
    del found["figures"]["run"]["clock_reason"]
    description.write(tmp_path / "run", found)
    assert read_run(tmp_path / "run").clock_reason is None
