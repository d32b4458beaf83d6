"""Data-parallel ranks: rounds, dummy batches and what the ranks tell each other, worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

import serq
from serq.results import Report

ENGINE = """
num_gpu_blocks 100; max_model_len 4096; max_num_batched_tokens 256; max_num_seqs 4;
enable_prefix_caching false; async_scheduling false; data_parallel_size 2; cost 1 + tokens / 100;
"""


def run(session: str, options: str = "", *, count: int = 2, engine: str = ENGINE) -> Report:
    text = f"""
    stage npu[2] : vllm {{ {engine} {options} }}
    stage clients : delay;
    workload {{ arrive batch({count}); }}
    session {{ {session} }}
    run {{ horizon 1000; }}
    """
    return serq.run(serq.compile(source=text), steps=True)


def values(report: Report, name: str) -> list[float]:
    return [round(value, 9) for value in report.observe(name)["value"]]


def waited(report: Report) -> list[float]:
    """From sending to the forming of the step that admitted it, for every request."""
    requests = report.requests
    return [round(time, 9) for time in requests.scheduled - requests.sent]


def rounds(report: Report, member: int) -> list[tuple[float, float]]:
    steps = report.steps[report.steps.member == member]
    return [(round(start, 9), round(end, 9)) for start, end in zip(steps.start, steps.end, strict=True)]


def test_every_rank_takes_as_long_as_the_slowest() -> None:
    """Prompts of 100 and 20 tokens: a round of 2 s for both; then decodes of 1.01 s."""
    report = run(
        "request r on npu[serial] (100 - 80 * serial, 3); observe ttft = ttft(r); observe e = e2e(r);"
    )
    assert values(report, "ttft") == [2, 2]
    assert values(report, "e") == [4.02, 4.02]
    assert rounds(report, 0) == rounds(report, 1) == [(0, 2), (2, 3.01), (3.01, 4.02)]


def test_what_arrives_during_a_round_waits_for_the_next_even_at_an_idle_rank() -> None:
    """Rank 1 runs a dummy batch from 0 to 2; its request of 0.5 starts then, with 1.2 s for 20 tokens."""
    report = run(
        "run clients (serial / 2); request r on npu[serial] (100 - 80 * serial, 3);"
        "observe first = first_token(r);"
    )
    assert values(report, "first") == [2, 3.2]
    assert waited(report) == [0, 1.5]
    assert rounds(report, 1) == [(2, 3.2), (3.2, 4.21), (4.21, 5.22)]


def test_dummy_batches_go_on_until_the_ranks_ask_each_other() -> None:
    """Rank 0 works for 2 rounds, 2 s and 1.01 s; then come dummies of 1.01 s to the 32nd iteration.

    A request during a dummy waits for its end; one that comes when all is over starts at once.
    """
    report = run(
        "run clients (serial == 1 ? 3.5 : serial * 50); request r on npu[0] (100, 2);",
        count=3,
    )
    assert waited(report) == [0, round(3.01 + 1.01 - 3.5, 9), 0]
    engines = report.engines
    assert list(engines.steps) == [6, 0]
    assert list(engines.dummy_steps) == [64 - 6, 64]


def test_ranks_of_an_asynchronous_engine_form_the_next_round_ahead() -> None:
    """The second round is formed at 0; the request of 0.5 gets into the third, which is formed at 2."""
    report = run(
        "run clients (serial / 2); request r on npu[serial] (100 - 80 * serial, 4);"
        "observe first = first_token(r);",
        engine=ENGINE.replace("async_scheduling false;", ""),
    )
    assert report.steps.formed[report.steps.member == 1].min() == 2
    assert values(report, "first") == [2, round(2 + 1.01 + 1.2, 9)]
    assert rounds(report, 0)[:3] == [(0, 2), (2, 3.01), (3.01, 4.21)]


def test_ranks_pad_to_the_most_tokens() -> None:
    """3 decodes are padded to 4, and so is the 1 of the other rank; both stay full graphs (V-074)."""
    report = run(
        "request r on npu[serial == 3] (10, 4);", "layout vllm_ascend { cudagraph_mode FULL_DECODE_ONLY; }",
        count=4,
    )  # fmt: skip
    decodes = report.steps[report.steps.state == "DecodeOnly"]
    assert set(zip(decodes.member, decodes.tokens, decodes.padded, decodes.graph, strict=True)) == {
        (0, 3, 4, "FULL"), (1, 1, 4, "FULL"),
    }  # fmt: skip


def test_an_eager_rank_makes_the_others_eager_and_does_not_pad_itself() -> None:
    """A prefill of 100 tokens runs eagerly; the decode beside it computes 100 tokens, eagerly too (V-074)."""
    report = run(
        "run clients (serial); request r on npu[1 - serial] (serial == 1 ? 100 : 10, 6);",
        "layout vllm_ascend { cudagraph_mode FULL_DECODE_ONLY; }",
    )
    beside = report.steps[(report.steps.member == 1) & (report.steps.padded == 100)]
    assert list(zip(beside.state, beside.tokens, beside.graph, strict=True)) == [("DecodeOnly", 1, "NONE")]
    prefill = report.steps[(report.steps.member == 0)].iloc[0]
    assert (prefill.tokens, prefill.padded, prefill.graph) == (100, 100, "NONE")


def test_no_rank_admits_while_one_is_full() -> None:
    """Rank 0 runs 2 of 2 until 4.02; a request of rank 1, with 1 of 2 running, waits for it (V-059)."""
    session = "run clients (serial == 3); request r on npu[serial >= 2] (100, serial == 2 ? 9 : 3);"
    full = ENGINE.replace("max_num_seqs 4", "max_num_seqs 2")
    default, balance = (
        waited(run(session, f"scheduler {name};", count=4, engine=full))[3] for name in ("default", "balance")
    )
    assert default == 2  # the first round takes 3 s for 200 tokens; it comes at 1
    assert balance == round(3 + 1.02 + 1.02 - 1, 9)


def test_speculation_makes_larger_dummies() -> None:
    """A dummy of 3 tokens takes 1.03 s, longer than a prefill of 1 token (V-076)."""
    report = run("request r on npu[0] (1, 1);", "speculative ngram { k 2; accept 0; }", count=1)
    assert rounds(report, 0) == [(0, 1.03)]


def test_a_rank_that_was_held_back_goes_on_when_the_full_one_has_room() -> None:
    """Rank 1 has nothing else to do: its request of 0.5 waits for rank 0, full to 3 + 2 x 1.02 (V-059)."""
    session = "run clients (serial == 2 ? 0.5 : 0); request r on npu[serial == 2] (100, 3);"
    full = ENGINE.replace("max_num_seqs 4", "max_num_seqs 2")
    report = run(session, "scheduler balance;", count=3, engine=full)
    assert waited(report) == [0, 0, round(3 + 2 * 1.02 - 0.5, 9)]


DECODE_RANKS = """
stage wire : ps(1);
connector link : transfer {{ over wire; work tokens / 1e6; }}
stage near : vllm {{
  num_gpu_blocks 1000; max_model_len 8192; max_num_batched_tokens 8192; async_scheduling false;
  kv_connector link; kv_role kv_producer; cost 0.1;
}}
stage far[2] : vllm {{
  num_gpu_blocks 1000; max_model_len 8192; max_num_seqs 2; async_scheduling false;
  kv_connector link; kv_role kv_consumer; data_parallel_size 2;
  scheduler {scheduler};
  cost 1;
}}
stage clients : delay;
workload {{ arrive batch(8); init {{ set late = serial == 2 || serial == 3 || serial > 5; }} }}
session {{
  run clients (2 * late);
  request p on near (serial < 4 ? 1600 : 160, 1);
  request d on far[serial >= 4] (serial < 4 ? 1600 : 160, 6) from p via link;
  observe ready = kv_ready(d);
  observe generated = generated(d);
}}
run {{ horizon 1000; }}
"""


def test_dyntra_lb_fetches_one_further_batch_ahead() -> None:
    """Two requests run on each rank from 1 to 7; the two of 2 have their KV long before (V-053).

    Otherwise nobody is looked at while there is no slot.
    """
    ready = {}
    for scheduler in ("default", "dyntra_lb { mode static; start_step 0; }"):
        report = serq.run(serq.compile(source=DECODE_RANKS.format(scheduler=scheduler)))
        assert list(report.observe("generated")["value"]) == [6] * 8
        ready[scheduler[:6]] = sorted(report.observe("ready")["value"])[-4:]
    assert min(ready["defaul"]) > 7
    assert min(ready["dyntra"]) > 2 and max(ready["dyntra"]) < 5


@pytest.mark.parametrize("seed", range(12))
def test_ranks_decide_what_engines_of_their_own_decide(seed: int) -> None:
    """With steps of one second and arrivals at whole ones, dummies and waiting for others change nothing."""
    draw = Random(seed)
    sent = [
        (draw.randrange(2), draw.randrange(30), draw.choice([5, 40, 200]), draw.choice([1, 3, 9]))
        for _ in range(25)
    ]
    session = "".join(
        f"branch (serial == {serial}) {{"
        f"  run clients ({time}); request r on npu[{rank}] ({prompt}, {output}); }}"
        for serial, (rank, time, prompt, output) in enumerate(sent)
    )
    tables = []
    for options in ("data_parallel_size 2;", ""):
        engine = f"""num_gpu_blocks 30; max_model_len 4096; max_num_batched_tokens 64; max_num_seqs 3;
        async_scheduling false; {options} cost 1;"""
        tables.append(run(session, count=25, engine=engine).requests)
    columns = ["scheduled", "first_token", "finish", "preemptions", "cached_tokens"]
    assert tables[0][columns].equals(tables[1][columns])
