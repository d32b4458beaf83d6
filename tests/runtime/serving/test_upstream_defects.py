"""Known defects of vllm-ascend, end to end: a run dies as the engine would, says why, keeps its records."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serq.cli import main

ENGINE = """num_gpu_blocks 12; max_model_len 4096; max_num_batched_tokens 256; max_num_seqs 8;
  enable_prefix_caching false; async_scheduling false; cost 1;"""

STALE_CHOICE = """
stage gpu : vllm {{ {engine} waiting batch_job_aware {{ {options} }} }}
stage clock : delay;
workload {{ arrive batch(3); }}
session {{
  branch (serial == 0) {{ request r on gpu (60, 12) job (1) max_tokens (100); }}
  branch (serial == 1) {{ request r on gpu (120, 30) job (1) abort after (2.5); }}
  branch (serial == 2) {{ run clock (3); request r on gpu (20, 5) job (1); }}
  observe end = now;
}}
run {{ horizon 100; }}
"""
"""Request 1 is chosen at 0 and does not fit beside request 0, which ends at 12; at 2.5 it is aborted."""

JOBS = """
stage gpu : vllm {{ {engine} waiting batch_job_aware {{ max_jobs {limit}; {options} }} }}
workload {{ arrive batch(3); }}
session {{ request r on gpu (10, 2) job (serial) max_tokens (9); observe end = now; }}
run {{ horizon 100; }}
"""

DRAFTS = """
stage wire : ps(1);
connector c : transfer {{ over wire; work tokens / 1000; }}
stage near : vllm {{ {engine} kv_connector c; kv_role kv_producer; }}
stage far : vllm {{
  {engine} kv_connector c; kv_role kv_consumer; scheduler recompute {options}; {asynchronous}
  speculative eagle {{ k 1; accept 0; }}
}}
workload {{ arrive batch(1); }}
session {{
  request p on near (20, 1);
  request d on far (20, 4) from p via c;
  observe end = now;
}}
run {{ horizon 100; }}
"""


def run(tmp_path: Path, text: str) -> Result:
    file = tmp_path / "program.sq"
    file.write_text(text)
    return CliRunner().invoke(main, ["run", str(file), "--steps", "1..3"])


def dies(result: Result, *words: str) -> None:
    """Exit code 1; the error names engine and defect; the report and the steps are printed all the same."""
    assert result.exit_code == 1
    assert "the engine dies, as vllm-ascend would" in result.stderr
    for word in words:
        assert word in result.stderr
    assert result.stdout.startswith("answer    stopped at ") and "PrefillNoCache" in result.stdout


def ends(result: Result) -> list[str]:
    """Exit code 0; the row of the observation."""
    assert result.exit_code == 0, result.output
    return next(line.split() for line in result.stdout.splitlines() if line.startswith("end "))


def test_an_abort_of_the_queue_s_choice(tmp_path: Path) -> None:
    """At 12 the aborted request would fit, and upstream admits it (V-034)."""
    dead = run(tmp_path, STALE_CHOICE.format(engine=ENGINE, options=""))
    dies(dead, "at time 12", "`gpu[0]`", "RuntimeError: Invalid request status: FINISHED_ABORTED", "V-034")
    alive = run(tmp_path, STALE_CHOICE.format(engine=ENGINE, options="fixed true;"))
    assert ends(alive)[1] == "3" and "beyond-upstream" in alive.stdout


@pytest.mark.parametrize("limit", [0, 2])
def test_one_job_too_many(tmp_path: Path, limit: int) -> None:
    """Of three jobs the third is refused when it comes; a limit of 0 refuses what the first ones teach."""
    dead = run(tmp_path, JOBS.format(engine=ENGINE, limit=limit, options=""))
    assert dead.exit_code == 1 and dead.stdout.startswith("answer    stopped at ")
    for words in ("`gpu[0]`: the engine dies, as vllm-ascend would", f"max_jobs = {limit}", "V-035"):
        assert words in dead.stderr
    alive = run(tmp_path, JOBS.format(engine=ENGINE, limit=limit, options="fixed true;"))
    assert ends(alive)[1] == "3"


@pytest.mark.parametrize(
    ("options", "asynchronous", "survives"),
    [("", "", False), ("", "async_scheduling false;", True)],
)
def test_drafts_under_asynchronous_recompute(
    tmp_path: Path, options: str, asynchronous: str, survives: bool
) -> None:
    """The asynchronous copy reads an attribute that requests do not have (V-048)."""
    engine = ENGINE.replace("async_scheduling false;", "")
    result = run(tmp_path, DRAFTS.format(engine=engine, options=options, asynchronous=asynchronous))
    if survives:
        assert ends(result)[1] == "1"
    else:
        dies(result, "`far[0]`", "AttributeError", "async_tokens_to_discard")
