"""What the figure of lanes draws, against values computed by hand."""

from math import isnan

import pytest

import serq
from serq.errors import UsageError
from serq.results.plots import FIGURES
from serq.results.plots.lanes import lane_timelines

# One slot, steps of 1, requests of 2 tokens. Request 0 runs 0-2; 1 (short) and 2 (long) wait from 0 on,
# till 2 and till 4. The run ends at 8.
PROGRAM = """
stage e : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false; cost 1;
                 waiting short_request_first { threshold 20; } }
workload { arrive batch(3); init { set prompt = serial == 2 ? 30 : 10; } }
session { request r on e (prompt, 2); }
run { horizon 8; }
"""


def test_lanes():
    rows = lane_timelines(serq.run(serq.compile(source=PROGRAM)).records)
    assert [row.name for row in rows] == ["short", "long"]
    short, long = rows
    # 200 slices of 0.04: in the first 50 one request waits in each lane, till slice 100 one in the long one
    assert list(short.waiting) == pytest.approx([1] * 50 + [0] * 150)
    assert list(long.waiting) == pytest.approx([1] * 100 + [0] * 100)
    assert short.oldest[:50] == pytest.approx([0.02 + 0.04 * place for place in range(50)])
    assert all(isnan(age) for age in short.oldest[50:])
    assert long.oldest[99] == pytest.approx(3.98) and isnan(long.oldest[100])


def test_where_nobody_waits_there_is_nothing_to_draw():
    records = serq.run(serq.compile(source=PROGRAM.replace("batch(3)", "batch(1)"))).records
    with pytest.raises(UsageError, match="no lane to draw"):
        FIGURES["lanes"](records)
