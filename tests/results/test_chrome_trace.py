"""The Chrome trace of a run whose every event is known."""

import json

import pytest

import serq
from serq.errors import UsageError
from serq.results.chrome_trace import write_chrome_trace

PROGRAM = """
stage e[2] : vllm { max_num_seqs 1; max_num_batched_tokens 32; max_model_len 64; num_gpu_blocks 11;
                    async_scheduling false; cost 1; }
workload { arrive batch(2); }
session { request r on e[0] (16, 2); }
run { horizon 3.5; }
"""


def test_steps_requests_and_counters(tmp_path):
    file = write_chrome_trace(serq.run(serq.compile(source=PROGRAM)).records, tmp_path / "run.json")
    events = json.loads(file.read_text())["traceEvents"]
    names = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"]
    assert names == ["e[0]", "e[1]"]
    steps = [(e["name"], e["ts"], e["dur"], e["args"]["tokens"]) for e in events if e["ph"] == "X"]
    assert steps == [("prefill", 0, 1e6, 16), ("decode", 1e6, 1e6, 1), ("prefill", 2e6, 1e6, 16)]
    begun = [(e["id"], e["name"], e["ts"]) for e in events if e["ph"] == "b"]
    ended = [(e["id"], e["name"], e["ts"]) for e in events if e["ph"] == "e"]
    assert begun == [
        (0, "r, session 0", 0), (0, "prefill", 0), (0, "decode", 1e6),
        (1, "r, session 1", 0), (1, "queued", 0), (1, "prefill", 2e6), (1, "decode", 3e6),
    ]  # fmt: skip
    # the second request has its first token at 3 s and is not done when the run ends
    assert ended[0] == (0, "r, session 0", 2e6) and ended[3] == (1, "r, session 1", 3.5e6)
    waiting = [e["args"]["waiting"] for e in events if e["ph"] == "C" and e["name"] == "requests"]
    assert waiting == [1, 1, 0]


def test_a_program_without_engines_has_no_timeline(tmp_path):
    report = serq.run(serq.compile(source="stage s : fifo; run { horizon 1; }"))
    with pytest.raises(UsageError, match="no `vllm` stage"):
        write_chrome_trace(report.records, tmp_path / "run.json")
    assert not (tmp_path / "run.json").exists()
