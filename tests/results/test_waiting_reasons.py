"""What requests wait for: engines built so that it can only be one thing."""

import pytest

import serq
from serq.results.waiting_reasons import WaitingReason, engine_waiting

PROGRAM = """
stage e : vllm { max_num_seqs SEQS; max_num_batched_tokens BUDGET; max_model_len 4096;
                 num_gpu_blocks BLOCKS; block_size 16; async_scheduling false; cost 1; }
workload { arrive batch(4); }
session { request r on e (PROMPT, 5); }
run { horizon 1000; }
"""


def waiting(**options):
    source = PROGRAM
    for name, value in options.items():
        source = source.replace(name.upper(), str(value))
    (found,) = engine_waiting(serq.run(serq.compile(source=source)).records)
    return found


def test_slots():
    # two run: steps 1-5 with two waiting, steps 6-10 with none
    found = waiting(seqs=2, budget=2048, blocks=1000, prompt=16)
    assert found.busy == 10 and found.waiting == pytest.approx(0.5)
    assert found.main_reason is WaitingReason.SLOTS and found.reasons[WaitingReason.KV] == 0


def test_budget():
    # one prompt a step: three wait after the first, two, one, then nobody; the last decodes 4 more steps
    found = waiting(seqs=8, budget=100, blocks=1000, prompt=97)
    assert found.main_reason is WaitingReason.BUDGET
    assert found.reasons[WaitingReason.BUDGET] == pytest.approx(found.waiting)


def test_kv():
    # 8 usable blocks hold one prompt of 90 tokens (6 blocks); the next waits for all of its 5 steps
    found = waiting(seqs=8, budget=2048, blocks=9, prompt=90)
    assert found.busy == 20 and found.waiting == pytest.approx(15 / 20)
    assert found.reasons[WaitingReason.KV] == pytest.approx(15 / 20)


def test_nobody_waits():
    found = waiting(seqs=8, budget=2048, blocks=1000, prompt=16)
    assert found.waiting == 0 and found.main_reason is None and found.busy == 5
