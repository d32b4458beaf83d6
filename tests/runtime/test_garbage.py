"""What a session leaves behind is freed when it ends, not when the garbage collector comes by."""

from __future__ import annotations

import gc

import pytest

from serq import api
from serq.runtime.simulation import simulate

HOLDS = """
pool seqs { cap 8; admit via gpu; }
pool kv { cap 4000; block 16; preempt lifo; }
stage gpu : step { budget 64; memory kv; cost 1 + tokens; }
workload { arrive batch(COUNT); }
session { hold seqs (1), kv (40) { prefill 40 growing kv; decode 9 growing kv; } }
run { horizon 1000000; }
"""
REQUESTS = """
stage gpu : vllm { num_gpu_blocks 500; max_model_len 400; enable_prefix_caching false; cost 1 + tokens; }
workload { arrive batch(COUNT); }
session { request r on gpu (40, 9); observe ttft = ttft(r); }
run { horizon 1000000; }
"""


@pytest.mark.parametrize("text", [HOLDS, REQUESTS])
def test_sessions_leave_no_cycles(text: str) -> None:
    """Ten times the sessions leave as much to collect: the objects of the run itself."""
    left = []
    gc.disable()
    try:
        for sessions in (200, 2000):
            program = api.compile(source=text.replace("COUNT", str(sessions))).ir
            gc.collect()
            assert simulate(program).ended == sessions
            left.append(gc.collect())
    finally:
        gc.enable()
    few, many = left
    assert many < few + 200


@pytest.mark.parametrize("text", [HOLDS, REQUESTS])
def test_runs_that_are_over_do_not_pile_up(text: str) -> None:
    """What a run leaves behind has cycles: the collector still comes by between runs, on its own."""
    program = api.compile(source=text.replace("COUNT", "20")).ir
    threshold = gc.get_threshold()
    counts = []
    for runs in (50, 200):
        for _ in range(runs):
            simulate(program)
        counts.append(len(gc.get_objects()))
    assert counts[1] - counts[0] < 100 * 200
    assert gc.get_threshold() == threshold
