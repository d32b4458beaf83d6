"""Connectors: KV computed at one engine and fetched by another, to the second.

Both engines have blocks of 16 tokens and steps of 10 s; they schedule synchronously. A prompt of 100 tokens
fills 7 blocks of 99. It is computed at `one` until 10; its KV takes 10 s over `wire`, from 10 to 20, where
`two` has nothing else to do; then `two` computes the last prompt token, and gives a token every 10 s.
"""

from __future__ import annotations

from typing import Any

import pytest
from pytest import approx

import serq
from serq.errors import CompileError, RunError
from tests.runtime.programs import records, samples

OPTIONS = "num_gpu_blocks 100; max_model_len 1000; async_scheduling false; cost 10;"
FETCH = "request p on one (100, 1); request d on two (100, 3) from p via link;"


def text(
    session: str,
    *,
    link: str = "",
    wire: str = "ps(1)",
    two: str = "",
    count: int = 1,
    horizon: float = 1000,
) -> str:
    return f"""
        def blocks(usage) = floor(99 * usage + 0.5);
        stage wire : {wire}; stage clients : delay;
        connector link : transfer {{ over wire; work tokens / 10; {link} }}
        stage one : vllm {{ {OPTIONS} kv_connector link; kv_role kv_producer; }}
        stage two : vllm {{ {OPTIONS} kv_connector link; kv_role kv_consumer; {two} }}
        workload {{ arrive batch({count}); }}
        session {{ {session} }}
        run {{ horizon {horizon}; }}"""


def observed(session: str, **options: Any) -> dict[str, list[float]]:
    found = records(text(session, **options)).series
    return {name: series.values for name, series in found.items()}


def test_a_prompt_is_computed_once() -> None:
    reads = """
        observe ready = kv_ready(d); observe first = first_token(d); observe end = now;
        observe fetched = fetched_tokens(d); observe cached = cached_tokens(d);
        observe outputs = generated(d);"""
    assert observed(FETCH + reads) == {
        "ready": [20], "first": [30], "end": [50], "fetched": [100], "cached": [0], "outputs": [3],
    }  # fmt: skip


def test_two_transfers_share_the_wire() -> None:
    """Both prompts fit one step; 20 s of work are done on a wire of capacity 1."""
    reads = "observe ready = kv_ready(d); observe first = first_token(d);"
    assert observed(FETCH + reads, count=2) == {"ready": [30, 30], "first": [40, 40]}


def test_transfers_take_turns_on_a_fifo_wire() -> None:
    """The first starts decoding at 20; the second's arrival at 30 is told with the step that ends then."""
    reads = "observe ready = kv_ready(d); observe first = first_token(d);"
    assert observed(FETCH + reads, count=2, wire="fifo(1)") == {"ready": [20, 30], "first": [30, 40]}


def test_a_transfer_may_cross_a_wire_that_flows_share() -> None:
    """A flow over `wire` and `port` from 10 on takes half of the wire: 20 s for the transfer."""
    session = """
        branch (serial == 0) { request p on one (100, 1); request d on two (100, 3) from p via link;
                               observe ready = kv_ready(d); end; }
        run clients (10); run wire, port (100);"""
    shared = "share maxmin; stage port : ps(2); stage clients"
    program = text(session, count=2).replace("stage clients", shared)
    assert samples(program, "ready") == [30]


def test_latency_and_delay_come_before_the_work() -> None:
    ready = "observe ready = kv_ready(d); observe work = busy(wire);"
    assert observed(FETCH + ready, link="latency 2; late 3;")["ready"] == [25]
    assert observed(FETCH + ready, link="late blocks + tokens / 100;")["ready"] == [28]


@pytest.mark.parametrize(
    ("policy", "failed", "outputs", "end"), [("recompute", 0, 3, 50), ("fail", 1, 0, 20), (None, 1, 0, 20)]
)
def test_a_load_that_fails(policy: str | None, failed: int, outputs: int, end: float) -> None:
    """Recomputing 100 tokens takes one step, as the last one alone would; unsaid, the request fails."""
    reads = "observe failed = failed(d); observe outputs = generated(d); observe end = now;"
    two = "" if policy is None else f"kv_load_failure_policy {policy};"
    found = observed(
        FETCH + reads + "observe kept = blocks(kv_usage(one)) + blocks(kv_usage(two));",
        link="fail 1;",
        two=two,
    )
    assert found == {"failed": [failed], "outputs": [outputs], "end": [end], "kept": [0]}


def test_loads_fail_by_chance_of_their_own_stream() -> None:
    """Another draw at the wire moves no failure, and about half of 40 fail."""
    session = FETCH + "observe failed = failed(d);"
    one = samples(text(session, link="fail ~bernoulli(0.5);", count=40), "failed")
    two = samples(text(session, link="fail ~bernoulli(0.5); late ~exp(1);", count=40), "failed")
    assert sorted(one) == sorted(two)
    assert 10 < sum(one) < 30


def test_the_report_has_a_row_a_connector() -> None:
    """Three prompts of 100 tokens and one of 50: 35 s of work on a wire that they share from 10 on. At 30 all
    have had 5 s, and the short one ends; the others end at 45. What ends after the warm-up counts.
    """
    session = """
        set length = serial == 0 ? 50 : 100;
        request p on one (length, 1); request d on two (length, 3) from p via link;"""
    program = text(session, count=4, link="fail tokens == 50;").replace(
        "horizon 1000", "horizon 1000; warmup 20"
    )
    report = serq.run(serq.compile(source=program))
    (row,) = report.connectors.to_dict("records")
    time = approx((20 + 3 * 35) / 4)
    expected = {"name": "link", "fetches": 4, "failed": 1, "mean_tokens": 87.5, "mean_time": time}
    expected |= {"offloads": 0, "refused": 0}
    assert row == expected
    assert report.to_dict()["connectors"] == [expected]
    assert "connector  fetches  failed  mean tokens  mean time  offloads  refused" in repr(report)


def test_blocks_stay_until_they_are_fetched() -> None:
    """`one` keeps 7 blocks from 10 to 20, whatever it has to do; `two` has its 7 from 10 on."""
    session = f"""
        branch (serial == 0) {{ {FETCH} end; }}
        run clients (15); observe one = blocks(kv_usage(one)); observe two = blocks(kv_usage(two));
        run clients (6);  observe one = blocks(kv_usage(one)); observe two = blocks(kv_usage(two));"""
    assert observed(session, count=2) == {"one": [7, 0], "two": [7, 7]}


def test_a_client_that_gives_up_leaves_the_transfer_running() -> None:
    """At 15 it goes on; the blocks of both engines come back with the transfer's end at 20 (S-140)."""
    session = """
        request p on one (100, 1);
        request d on two (100, 3) from p via link abort after (5);
        observe at = now; observe gone = aborted(d);
        run clients (1);  observe blocks = blocks(kv_usage(one)); observe blocks = blocks(kv_usage(two));
        observe wire = queue(wire);
        run clients (5);  observe blocks = blocks(kv_usage(one)); observe blocks = blocks(kv_usage(two));"""
    assert observed(session) == {"at": [15], "gone": [1], "blocks": [7, 7, 0, 0], "wire": [1]}


def test_who_gives_up_in_the_queue_lets_the_other_engine_go() -> None:
    """`two` runs one request, until 50; the other gives up at 27, and the engine hears it at 30."""
    session = f"""
        branch (serial == 0) {{ {FETCH} end; }}
        request p on one (100, 1); run clients (12);
        request d on two (100, 3) from p via link abort after (5);
        observe fetched = fetched_tokens(d);
        run clients (2); observe kept = blocks(kv_usage(one));
        run clients (2); observe kept = blocks(kv_usage(one));"""
    assert observed(session, count=2, two="max_num_seqs 1;") == {"fetched": [0], "kept": [7, 0]}


def test_blocks_that_nobody_fetches_are_given_up() -> None:
    session = """
        request p on one (100, 1);
        run clients (19); observe kept = blocks(kv_usage(one));
        run clients (2);  observe kept = blocks(kv_usage(one));
        request d on two (100, 1) from p via link;
        observe fetched = fetched_tokens(d); observe time = e2e(d);"""
    assert observed(session, link="release_after 20;") == {"kept": [7, 0], "fetched": [0], "time": [10]}


def test_what_stops_by_itself_keeps_nothing() -> None:
    """A connector keeps blocks for requests that end by length only: they were to go on elsewhere."""
    session = "request p on one (100, 1) max_tokens (2); observe kept = blocks(kv_usage(one));"
    fetch = "request d on two (100, 1) from p via link; observe fetched = fetched_tokens(d);"
    assert observed(session + fetch) == {"kept": [0], "fetched": [0]}


def test_only_handles_that_somebody_fetches_are_kept() -> None:
    session = f"request q on one (100, 1); observe kept = blocks(kv_usage(one)); {FETCH}"
    assert observed(session)["kept"] == [0]


def test_what_the_engine_has_cached_is_not_fetched() -> None:
    """The second time six whole blocks of 16 are there: 4 tokens move."""
    session = """
        request p on one (100, 1) prefix (1, 100); request d on two (100, 3) from p via link;
        observe cached = cached_tokens(d); observe fetched = fetched_tokens(d); observe time = e2e(d);"""
    assert observed(f"{session} {session}") == {
        "cached": [0, 96], "fetched": [100, 4], "time": [40, approx(30.4)],
    }  # fmt: skip


def test_an_engine_may_do_both() -> None:
    program = text(
        FETCH.replace("two", "one") + "observe x = fetched_tokens(d); observe y = cached_tokens(d);"
    )
    found = records(program.replace("kv_producer", "kv_both")).series
    assert (found["x"].values, found["y"].values) == ([4], [96])


def test_a_prompt_may_skip_the_cache() -> None:
    """It looks nothing up and is found by the next one (S-070)."""
    ask = "request {0} on two (64, 1) prefix (1, 64) {1}; observe cached = cached_tokens({0});"
    session = ask.format("a", "") + ask.format("b", "skip_reading_prefix_cache (1)") + ask.format("c", "")
    assert observed(session)["cached"] == [0, 0, 48]


@pytest.mark.parametrize(
    ("session", "link", "code"),
    [
        ("request p on one (100, 1); request d on two (99, 1) from p via link;", "", "fetched-length"),
        ("request d on two (9, 1) from p via link; request p on one (9, 1);", "", "request-not-sent"),
        (FETCH, "late 0 - tokens;", "negative-amount"),
        (FETCH, "fail tokens;", "guard-not-boolean"),
    ],
)
def test_what_cannot_be_meant_stops_the_run(session: str, link: str, code: str) -> None:
    with pytest.raises(RunError) as caught:
        records(text(session, link=link))
    assert caught.value.code == code
    assert caught.value.records is not None


def test_room_that_nobody_asks_for_is_said() -> None:
    program = text(FETCH, link="offload_blocks 5;")
    assert [warning.code for warning in serq.compile(source=program).warnings] == ["W612"]
    assert not serq.compile(source=text(FETCH, link="offload_blocks 5;", two="scheduler recompute;")).warnings


@pytest.mark.parametrize(
    ("change", "to", "code"),
    [
        ("over wire;", "over one;", "E434"),
        ("stage wire : ps(1);", "stage wire : step { budget 8; cost 1; }", "E434"),
        ("kv_role kv_consumer;", "kv_role kv_producer;", "E437"),
        ("kv_connector link; kv_role kv_consumer;", "kv_role kv_consumer;", "E445"),
        ("kv_connector link; kv_role kv_consumer;", "kv_load_failure_policy fail;", "E445"),
        ("kv_role kv_consumer;", "kv_role kv_both; scheduler recompute;", "E445"),
        ("from p", "from q", "E435"),
        ("work tokens / 10;", "work tokens / 10; latency 0 - 1;", "E412"),
        ("work tokens / 10;", "work tokens / 10; release_after 0 - 1;", "E433"),
        ("work tokens / 10;", "work serial;", "E403"),
    ],
)
def test_what_contradicts_itself_is_refused(change: str, to: str, code: str) -> None:
    program = text(FETCH)
    assert change in program
    with pytest.raises(CompileError) as caught:
        serq.compile(source=program.replace(change, to))
    assert code in [diagnostic.code for diagnostic in caught.value.diagnostics]


def test_a_pipelined_engine_that_does_both_may_go_round_for_ever() -> None:
    """What follows from three rules of vLLM. A shortage with a step in flight frees nothing at once, so every
    running request gives way (S-106); an engine that must deliver KV drops their tokens in flight (S-104); so
    all come back as they were, and in the second step meet the same shortage. Without the producer's role the
    tokens in flight count, and each round gets one token further.
    """
    program = text("request d on two (90, 40);", count=2, horizon=20_000)
    program = program.replace("async_scheduling false;", "").replace(
        "num_gpu_blocks 100", "num_gpu_blocks 13"
    )
    assert len(records(program).requests) == 2
    with pytest.raises(RunError) as caught:
        records(program.replace("kv_role kv_consumer", "kv_role kv_both"))
    assert caught.value.code == "livelock"
