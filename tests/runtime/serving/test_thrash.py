"""A run warns of engines that thrash, from warm-up on, and keeps the warning in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import serq
from serq.ir import nodes
from serq.runtime.serving.thrash import thrash_sentence
from tests.runtime.serving.build import branch, request, run, vllm

SESSION = [branch("serial == 0", request(64, 20)), branch("serial == 1", request(80, 2))]
ENGINE = vllm(num_gpu_blocks=10, enable_prefix_caching=False)

TEXT = """
stage engine : vllm { num_gpu_blocks 10; max_model_len 999; enable_prefix_caching false; cost 0.01; }
workload { arrive batch(2); }
session { branch (serial == 0) { request r on engine (64, 20); } else { request s on engine (80, 2); } }
run { horizon 10; }
"""


def test_a_tenth_of_the_tokens_or_five_times() -> None:
    assert thrash_sentence("e", 1000, 99, {3: 4}) is None
    assert thrash_sentence("e", 1000, 100, {3: 1}) is not None
    assert thrash_sentence("e", 1000, 5, {3: 5}) is not None
    assert thrash_sentence("e", 1000, 0, {}) is None and thrash_sentence("e", 0, 0, {}) is None
    assert thrash_sentence("e", 1000, 250, {7: 2, 3: 2, 5: 1}) == (
        "`e` thrashes: 5 preemptions lost 250 computed tokens, 25.0 % of all that it computed; "
        "request 3 gave way 2 times"
    )


def test_the_run_warns() -> None:
    """The trace of `test_queue_log`: 80 are lost. Computed: 64 + 19 by request 0, 80 + 81 by request 1."""
    (warning,) = run(ENGINE, SESSION, arrive=nodes.Batch(2)).warnings
    assert (warning.code, warning.place) == ("thrashing", "stage `engine`")
    assert "1 preemption lost 80 computed tokens, 32.8 %" in warning.message


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_before_warm_up_it_does_not_count(engine: serq.api.EngineMode) -> None:
    """Everything is over at 0.5 s at the latest: 23 steps."""
    early = serq.run(serq.compile(source=TEXT), engine=engine)
    late = serq.run(serq.compile(source=TEXT, warmup=1), engine=engine)
    assert [warning.code for warning in early.warnings] == ["thrashing"]
    assert not late.warnings


def test_it_is_in_the_folder(tmp_path: Path) -> None:
    program = serq.compile(source=TEXT)
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    assert [warning.code for warning in serq.read_run(tmp_path / "run").warnings] == ["thrashing"]
