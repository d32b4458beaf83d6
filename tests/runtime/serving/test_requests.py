"""What a session reads of its requests, on engines small enough to follow by hand."""

from __future__ import annotations

from array import array
from math import isnan
from typing import Any

import pytest

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.serving import KVCacheGroup, Speculative
from serq.runtime.trace import Trace
from tests.runtime.serving.build import assign, branch, observe, pause, request, run, samples, vllm

METRICS = (
    *("sent", "first_token", "last_token", "ttft", "tpot", "itl", "e2e", "queue_time", "prompt_tokens"),
    *("cached_tokens", "generated", "preempted", "stopped", "aborted", "failed", "recomputed", "rejected"),
)


def read(handle: str = "r", *metrics: str) -> list[nodes.Observe]:
    return [observe(metric, f"{metric}({handle})") for metric in metrics or METRICS]


def values(*session: Any, engine: Any = None, **options: Any) -> dict[str, Any]:
    """Series -> its samples, the bare sample where there is one."""
    found = samples(run(engine or vllm(), session, **options))
    return {name: series[0] if len(series) == 1 else series for name, series in found.items()}


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_lone_request(async_scheduling: bool) -> None:
    """It is sent at 3; three steps of 10 bring its three tokens at 13, 23 and 33."""
    seen = values(pause(3), request(5, 3), *read(), engine=vllm(async_scheduling=async_scheduling))
    assert seen == {
        **{"sent": 3, "first_token": 13, "last_token": 33, "ttft": 10, "tpot": 10, "itl": 10, "e2e": 30},
        **{"queue_time": 0, "prompt_tokens": 5, "cached_tokens": 0, "generated": 3, "preempted": 0},
        **dict.fromkeys(("stopped", "aborted", "failed", "recomputed", "rejected"), 0),
    }


def test_a_message_is_read_between_steps() -> None:
    """Session 0 keeps the engine in steps 0-10-20-30; session 1 sends at 13 and is taken in at 20."""
    late = branch("serial == 1", pause(13), request(5, 1), *read("r", "ttft", "queue_time"))
    records = run(vllm(), [late, branch("serial == 0", request(5, 9))], arrive=nodes.Batch(2))
    assert samples(records) == {"ttft": [17], "queue_time": [0]}
    table = records.requests
    place = list(table.sent).index(13)
    times = (table.queued, table.scheduled, table.first_token, table.finish)
    assert [column[place] for column in times] == [20, 20, 30, 30]


def test_waiting_for_a_slot_is_queue_time() -> None:
    """One slot: session 1 is taken in at 0 and admitted when session 0 has had its two steps."""
    engine = vllm(max_num_seqs=1)
    seen = values(request(5, 2), *read("r", "queue_time", "ttft"), engine=engine, arrive=nodes.Batch(2))
    assert seen == {"queue_time": [0, 20], "ttft": [10, 30]}


def test_the_price_is_that_of_the_batch() -> None:
    """Three prompts of 5: prefill of 15 tokens, then decodes on top of 5 and of 6 computed tokens each."""
    cost = "100 * scheduled + tokens + 1000 * decoders + 0.125 * context_decode + 0.5 * prefilled"
    records = run(vllm(cost), [request(5, 3)], arrive=nodes.Batch(3))
    ends = [300 + 15 + 7.5]
    ends.append(ends[0] + 300 + 3 + 3000 + 0.125 * 15)
    ends.append(ends[1] + 300 + 3 + 3000 + 0.125 * 18)
    assert list(records.engines[0].table.end) == ends


def test_blocks_held_are_priced_whole() -> None:
    """17 tokens hold two blocks of 16, while they are computed as a prefill and as a decode."""
    table = run(vllm("1 + kv_prefill + 100 * kv_decode"), [request(17, 2)]).engines[0].table
    assert list(table.end) == [33, 33 + 1 + 3200]


def test_attention_counts_what_a_chunk_attends_to() -> None:
    """A prompt of 12 in chunks of 8 and 4: 8 * (0 + 4), then 4 * (8 + 2)."""
    engine = vllm("1 + attention", max_num_batched_tokens=8, max_num_seqs=4)
    assert list(run(engine, [request(12, 1)]).engines[0].table.end) == [33, 33 + 41]


@pytest.mark.parametrize("cost", ["0", "0 - tokens", "0 * (0 / 0)"])
def test_a_step_with_tokens_takes_time(cost: str) -> None:
    with pytest.raises(RunError, match="it must take time") as caught:
        run(vllm(cost), [request(5, 1)])
    assert caught.value.code == "iteration-costs-nothing"


# --- how a request ends ---------------------------------------------------------------------------


def test_without_a_limit_the_length_ends_it() -> None:
    assert values(request(5, 4), *read("r", "generated", "stopped")) == {"generated": 4, "stopped": 0}


@pytest.mark.parametrize(("limit", "generated", "stopped"), [(3, 3, 0), (4, 4, 1), (9, 4, 1)])
def test_with_a_limit_a_stop_token_ends_it_where_it_comes_first(
    limit: int, generated: int, stopped: int
) -> None:
    seen = values(request(5, 4, max_tokens=limit), *read("r", "generated", "stopped"))
    assert seen == {"generated": generated, "stopped": stopped}


def test_the_model_is_not_let_stop_early() -> None:
    seen = values(request(5, 2, min_tokens=6, max_tokens=9), *read("r", "generated", "stopped"))
    assert seen == {"generated": 6, "stopped": 1}


def test_the_model_length_ends_it() -> None:
    """20 tokens in all: a prompt of 15 gets 5 outputs."""
    engine = vllm(max_model_len=20, max_num_batched_tokens=32, max_num_seqs=4)
    assert values(request(15, 99), *read("r", "generated"), engine=engine) == {"generated": 5}


@pytest.mark.parametrize(("prompt", "rejected"), [(19, 0), (20, 1), (21, 1)])
def test_a_prompt_without_room_for_an_output_is_rejected_at_once(prompt: int, rejected: int) -> None:
    engine = vllm(max_model_len=20, max_num_batched_tokens=32, max_num_seqs=4)
    records = run(
        engine, [pause(2), request(prompt, 1), *read("r", "rejected", "ttft"), observe("at", "now")]
    )
    assert samples(records)["rejected"] == [rejected]
    assert samples(records)["at"] == [2 if rejected else 12]
    assert isnan(samples(records)["ttft"][0]) == bool(rejected)


@pytest.mark.parametrize(
    ("patience", "generated", "goes_on"), [(5, 0, 5), (15, 1, 15), (20, 1, 20), (25, 2, 25)]
)
def test_a_client_that_gives_up_goes_on_at_once(patience: int, generated: int, goes_on: int) -> None:
    """Tokens come at 10, 20, 30; one that comes at the instant of the abort does not count any more."""
    session = (request(5, 9, abort_after=patience), observe("now", "now"), *read("r", "aborted", "generated"))
    records = run(vllm(), [*session, pause(100), *read("r", "e2e")])
    expected = {"now": [goes_on], "aborted": [1], "generated": [generated], "e2e": [patience]}
    assert samples(records) == expected
    assert records.requests.finish[0] == -(-patience // 10) * 10


def test_patience_that_is_not_needed_changes_nothing() -> None:
    assert values(request(5, 2, abort_after=50), observe("at", "now"), *read("r", "aborted")) == {
        "at": 20,
        "aborted": 0,
    }


# --- identity -------------------------------------------------------------------------------------


def test_a_prompt_is_its_own_by_default() -> None:
    seen = values(request(40, 1), request(40, 1), *read("r", "cached_tokens"))
    assert seen == {"cached_tokens": 0}


def test_a_conversation_is_found_again() -> None:
    """40 + 9 tokens, the last one never computed: three whole blocks of 16 are cached for the next turn."""
    seen = values(request(40, 9), request(20, 1, follows="r"), *read("r", "cached_tokens", "prompt_tokens"))
    assert seen == {"cached_tokens": 48, "prompt_tokens": 69}


def test_a_handle_may_follow_another_and_itself_from_nothing() -> None:
    first = request(40, 9, handle="a", follows="a")
    second = request(7, 1, handle="b", follows="a")
    seen = values(first, *read("a", "prompt_tokens"), second, *read("b", "cached_tokens"))
    assert seen == {"prompt_tokens": 40, "cached_tokens": 48}


def test_a_prefix_is_shared_by_text() -> None:
    """Sessions 0 and 2 share 40 tokens of text 1: two whole blocks; session 1 has text 2."""
    session = (
        pause("100 * serial"),
        assign("text", "1 + (serial == 1)"),
        request(50, 1, prefix=("text", 40)),
        *read("r", "cached_tokens"),
    )
    assert values(*session, arrive=nodes.Batch(3)) == {"cached_tokens": [0, 0, 32]}


def test_a_prefix_longer_than_the_prompt_is_cut() -> None:
    session = (request(20, 1, prefix=(1, 500)), request(33, 1, prefix=(1, 33)), *read("r", "cached_tokens"))
    assert values(*session) == {"cached_tokens": 16}


def traced(*prompts: tuple[int, list[int]]) -> Trace:
    trace = Trace(format="mooncake", times=array("d"), hash_ids=[])
    for number, (length, ids) in enumerate(prompts):
        trace.add_turn(length, 1)
        trace.close_session()
        assert trace.times is not None
        assert trace.hash_ids is not None
        trace.times.append(1000.0 * number)
        trace.hash_ids.append(array("q", ids))
    return trace


def test_a_traced_prompt_is_its_hash_ids() -> None:
    """The second prompt shares an id of 512 tokens with the first, the third two and a part."""
    trace = traced((1100, [7, 8, 9]), (600, [7, 5]), (1100, [7, 8, 9]))
    session = (nodes.Turn(id=1), request("new", "out", traced=True), *read("r", "cached_tokens"))
    engine = vllm(max_model_len=2000, num_gpu_blocks=1000)
    records = run(engine, session, arrive=nodes.Traced(1.0), trace=trace)
    assert samples(records) == {"cached_tokens": [0, 512, 1088]}


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ([request(2.5, 1)], "not-whole"),
        ([request(2, 0)], "not-whole"),
        ([request(-1, 1)], "not-whole"),
        ([request(0, 1)], "empty-prompt"),
        ([request(5, 1, max_tokens=0)], "not-whole"),
        ([request(5, 1, priority=0.5)], "not-whole"),
        ([request(5, 1, abort_after=-1)], "negative-amount"),
        ([request(5, 1, traced=True)], "no-hash-ids"),
        ([observe("early", "ttft(r)"), request(5, 1)], "request-not-sent"),
        ([observe("work", "work(engine)")], "unseen-work"),
    ],
)
def test_what_cannot_be_meant_is_named(session: list[nodes.AnyStatement], code: str) -> None:
    with pytest.raises(RunError) as caught:
        run(vllm(), session)
    assert caught.value.code == code
    assert caught.value.session == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_batched_tokens": 10, "max_num_seqs": 20}, "at least max_num_seqs"),
        ({"speculative": Speculative("ngram", 2), "async_scheduling": True}, "async_scheduling"),
        ({"groups": (KVCacheGroup("sliding"),)}, "window"),
        ({"kv_connector": "c"}, "needs `kv_role`"),
    ],
)
def test_engines_that_cannot_be_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message) as caught:
        run(vllm(**options), [request(5, 1)])
    assert "stage `engine`" in caught.value.message


# --- sessions that are preempted ------------------------------------------------------------------


def test_a_preempted_session_aborts_its_request() -> None:
    """Session 0 grows at 25 and takes session 1's unit: its request ends with the step, another follows."""
    pool = nodes.Pool("slots", capacity=2.0, preempt="lifo")
    unit = (nodes.HoldUnit(nodes.PoolRef("slots"), nodes.Number(1.0)),)
    grow = nodes.Grow(id=901, pool=nodes.PoolRef("slots"), units=nodes.Number(1.0))
    body = (
        branch("serial == 0", pause(25), grow, pause(10)),
        branch("serial == 1", request(5, 9), observe("at", "now")),
    )
    records = run(vllm(), [nodes.Hold(id=900, units=unit, body=body)], pools=(pool,), arrive=nodes.Batch(2))
    table = records.requests
    assert list(table.sent) == [0, 35]
    assert list(table.finish) == [30, 125]
    assert samples(records) == {"at": [125]}
