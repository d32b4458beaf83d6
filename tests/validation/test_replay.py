"""Replays of a few requests, every instant worked out by hand from the tiny tables.

Ten layers; a token costs 431 us in the dense operators (1 + 10 * (2 * 2 + 3 + 5 + 6 + 7 + 8 + 9) + 10), a
sequence 23 us. Attention, ten times: a prefill of 16 alone 1000 us, one decode below 100 tokens 100 us.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serq.errors import RunError
from serq.validation import replay
from serq.validation.reading import read_run
from serq.validation.replay import PredictedRequest, Prediction
from serq.validation.setup import set_up
from serq.validation.validate import predict
from tests.kernels.measured.tiny_tables import EXPERTS_CONFIG, SKEW, SKEW_META, write_tables
from tests.validation.runs import META, request, write_model, write_run

DENSE, SEQUENCE, PREFILL, DECODE = 431, 23, 1000, 100


def replayed(
    folder: Path,
    *requests: dict[str, Any],
    config: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = META,
    files: dict[str, str] | None = None,
    **given: Any,
) -> Prediction:
    tables, needed = write_model(folder, config)
    write_tables(tables, files)
    run = read_run(write_run(folder / "run", requests, meta))
    return predict(run, set_up(run, tables, needed | given))


def us(*times: float) -> list[Any]:
    return [pytest.approx(time * 1e-6, abs=1e-12) for time in times]


def stamps(request: PredictedRequest) -> list[float]:
    return [request.queued, request.first, request.last]


def test_one_request(tmp_path: Path) -> None:
    prediction = replayed(tmp_path, request(16, 3))
    first = 16 * DENSE + SEQUENCE + PREFILL
    step = DENSE + SEQUENCE + DECODE
    assert stamps(prediction.requests[0]) == us(0, first, first + 2 * step)
    assert prediction.steps == 3 and prediction.makespan == prediction.requests[0].last
    assert prediction.deliveries == [*zip(us(first, first + step, first + 2 * step), (1, 1, 1), strict=True)]
    assert sum(prediction.seconds.values()) == pytest.approx((first + 2 * step) * 1e-6)


@pytest.mark.parametrize(("asynchronous", "joins_after"), [(True, 2), (False, 1)])
def test_who_arrives_in_a_step_is_taken_in_between_two(
    tmp_path: Path, asynchronous: bool, joins_after: int
) -> None:
    """Under async scheduling the next step was formed already; it joins the one after that (S-103)."""
    prediction = replayed(
        tmp_path, request(16, 4), request(16, 1, arrival=1e-3), async_scheduling=asynchronous
    )
    first = 16 * DENSE + SEQUENCE + PREFILL
    alone = DENSE + SEQUENCE + DECODE
    # 17 tokens, 2 sequences; one decode beside 16 prefill tokens: 400 us, ten times.
    both = 17 * DENSE + 2 * SEQUENCE + 4000
    begin = first + (joins_after - 1) * alone
    assert stamps(prediction.requests[1]) == us(first, begin + both, begin + both)
    assert prediction.requests[1].arrival == pytest.approx(1e-3)


def test_prompts_that_begin_alike_are_computed_once(tmp_path: Path) -> None:
    (tmp_path / "prefixes.csv").write_text("request,earlier,tokens\n1,0,32\n")
    late = request(48, 1, arrival=1)
    unknown = replayed(tmp_path / "1", request(32, 1), late)
    known = replayed(tmp_path / "2", request(32, 1), late, prefixes=tmp_path / "prefixes.csv")
    off = replayed(tmp_path / "3", request(32, 1), late, enable_prefix_caching=False)
    assert [p.hit_tokens for p in (unknown, known, off)] == [0, 32, 0]
    # 48 new tokens: 2600 us (180 + 80 on from 16 and 32, ten times); 16 on 32: 1250 us.
    taken = [p.requests[1].first - p.requests[1].queued for p in (unknown, known)]
    assert taken == us(48 * DENSE + SEQUENCE + 2600, 16 * DENSE + SEQUENCE + 1250)


def test_engines_in_lock_step(tmp_path: Path) -> None:
    prediction = replayed(
        tmp_path,
        request(16, 1),
        request(32, 2),
        config=EXPERTS_CONFIG,
        data_parallel_size=2,
        enable_expert_parallel=True,
        link_bandwidth=1e6,
        link_latency=1e-3,
    )
    # Before the experts a token costs 10 * (2 * 2 + 3 + 5 + 6) + 1 + 10 = 191 us.
    # Both prefill at once: 24 tokens' worth of pairs activate all 8 experts of a device. Measured at 8
    # experts: 50 us for 4 tokens, 60 for 8, so 100 for 24, ten times. 32 tokens of 116 and 100 values pass.
    exchange = (32 * 116 * 2 + 32 * 100 * 2) * 10 + 2 * 1e3 * 10
    first = 32 * 191 + SEQUENCE + 1800 + 1000 + exchange
    assert [request.rank for request in prediction.requests] == [0, 1]
    assert [request.first for request in prediction.requests] == us(first, first)
    # Then one decode, and a dummy token in the other engine: one token's worth, two experts, 10 us.
    second = 191 + SEQUENCE + DECODE + 100 + (116 * 2 + 100 * 2) * 10 + 2 * 1e3 * 10
    assert prediction.requests[1].last == us(first + second)[0]


def test_the_front_end_counts_a_waiting_request_as_four_running_ones(tmp_path: Path) -> None:
    """Each is sent when those before it run. The fourth ends after the fifth; the last two come in one step.

    Engine 0 runs three then, engine 1 one: the sixth goes to 1, where it waits, and 4 + 1 are more than 3.
    """
    sent = [request(16, 60 if n == 3 else 2000, arrival=0.04 * n) for n in range(5)]
    sent += [request(16, 1, arrival=0.24), request(16, 1, arrival=0.24001)]
    prediction = replayed(tmp_path, *sent, data_parallel_size=2)
    assert [request.rank for request in prediction.requests] == [0, 1, 0, 1, 0, 1, 0]
    assert prediction.requests[5].queued > prediction.requests[6].arrival


def test_engines_of_a_dense_model_do_not_wait_for_each_other(tmp_path: Path) -> None:
    prediction = replayed(tmp_path, request(16, 4), request(16, 4, arrival=1e-4), data_parallel_size=2)
    assert [request.rank for request in prediction.requests] == [0, 1]
    assert prediction.requests[1].last - prediction.requests[0].last == pytest.approx(1e-4)


def test_a_request_that_no_engine_could_hold(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="request 0 never ends"):
        replayed(tmp_path, request(64, 3), num_gpu_blocks=4)


def test_preempted_requests_come_to_an_end(tmp_path: Path) -> None:
    prediction = replayed(tmp_path, request(32, 40), request(32, 40), num_gpu_blocks=8)
    assert sum(request.preemptions for request in prediction.requests) > 0
    assert all(request.last > request.first for request in prediction.requests)


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("engines", [1, 2])
def test_decodes_in_bulk_come_to_the_same_as_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asynchronous: bool, engines: int
) -> None:
    """Bit for bit, with preemptions, shared prefixes, and prices that see the extremes of contexts."""
    (tmp_path / "prefixes.csv").write_text("request,earlier,tokens\n4,0,16\n7,2,16\n9,4,32\n")
    sent = [request(20 + 7 * n % 40, 5 + 11 * n % 37, arrival=3e-3 * n) for n in range(14)]
    options: dict[str, Any] = {
        "files": {
            "meta.yaml": "tp_degrees: [1]\n" + SKEW_META.format(enabled="true"),
            "tp1/skew_fit.csv": SKEW,
        },
        "num_gpu_blocks": 14,
        "prefixes": tmp_path / "prefixes.csv",
        "async_scheduling": asynchronous,
        "config": EXPERTS_CONFIG if engines == 2 else None,
        "data_parallel_size": engines,
        "enable_expert_parallel": engines == 2,
    }
    if engines == 2:
        options |= {"link_bandwidth": 1e9, "link_latency": 1e-6}
    fast = replayed(tmp_path / "fast", *sent, **options)
    monkeypatch.setattr(replay, "suits_extents", lambda config: False)
    walked = replayed(tmp_path / "walked", *sent, **options)
    assert fast == walked
    assert fast.hit_tokens > 0 and sum(request.preemptions for request in fast.requests) > 0
