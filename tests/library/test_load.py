"""`use "serq/load.sq"`: what a program sends is what `vllm bench serve` would send."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import serq
from tests.shared import shared

SMALLEST_P = 1e-4
"""Seeds are fixed, so a test passes always or never."""


def program(**sets: str | float) -> serq.Program:
    text = """
    use "serq/load.sq";
    let request_rate = 20;
    let burstiness = 1;
    let max_concurrency = inf;
    let prefix_len = 0;
    pool client { cap max_concurrency; }
    stage engine : vllm {
      num_gpu_blocks 4000; max_model_len 8192;
      cost 0.01 + 5e-5 * tokens;
    }
    workload {
      arrive renewal(bench_gap(request_rate, burstiness));
      init { set prompt = random_length(12, 0.5); set output = random_length(6, 0.5); }
      hidden output;
    }
    session {
      observe arrived = now;
      observe prompt = prompt;
      observe output = output;
      hold client (1) { request r on engine (prefix_len + prompt, output) prefix (0, prefix_len); }
      observe ttft = ttft(r);
      observe sent = sent(r);
      observe ended = now;
      observe cached = cached_tokens(r);
    }
    gauge in_flight = queue(engine);
    run { arrivals 2000; horizon 10000; }
    """
    return serq.compile(source=text, sets=sets)


def samples(report: serq.Report, name: str) -> np.ndarray:
    return np.array(report.records.series[name].values)


@pytest.mark.parametrize("burstiness", [0.2, 1.0, 4.0])
def test_gaps_are_those_of_the_benchmark(burstiness: float) -> None:
    report = serq.run(program(burstiness=burstiness))
    gaps = np.diff(samples(report, "arrived"), prepend=0.0)  # it lets a gap pass before the first one too
    theta = 1 / (20 * burstiness)  # the benchmark draws np.random.gamma(shape=burstiness, scale=theta)
    assert stats.kstest(gaps, stats.gamma(burstiness, scale=theta).cdf).pvalue > SMALLEST_P
    assert stats.ks_2samp(gaps, np.random.default_rng(1).gamma(burstiness, theta, 2000)).pvalue > SMALLEST_P
    assert gaps.mean() == pytest.approx(1 / 20, rel=4 / np.sqrt(2000 * burstiness))
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1 / burstiness, rel=0.2)


def test_endless_burstiness_is_a_clock() -> None:
    arrived = samples(serq.run(program(burstiness="inf")), "arrived")
    assert arrived == pytest.approx(np.arange(1, 2001) / 20)


def test_a_rate_moves_no_other_draw() -> None:
    slow, fast = serq.run(program(burstiness=0.5)), serq.run(program(burstiness=0.5, request_rate=40))
    assert np.allclose(samples(slow, "arrived"), 2 * samples(fast, "arrived"))
    assert (samples(slow, "prompt") == samples(fast, "prompt")).all()


def test_never_more_in_flight_than_allowed_and_first_come_first_sent() -> None:
    report = serq.run(program(burstiness=0.5, request_rate=200, max_concurrency=5))
    sent, ended = np.sort(samples(report, "sent")), np.sort(samples(report, "ended"))
    assert max(np.sum(sent <= t) - np.sum(ended <= t) for t in sent) == 5
    (in_flight,) = report.records.gauges
    assert in_flight.largest == 5
    arrived = samples(report, "arrived")  # request i is sent when it has arrived and i - 5 others have ended
    assert sent == pytest.approx(np.maximum(arrived, np.concatenate([np.zeros(5), ended[:-5]])))


def test_waiting_at_the_client_is_no_part_of_the_time_to_first_token() -> None:
    report = serq.run(program(request_rate=2000, max_concurrency=1))
    assert samples(report, "ttft").max() < 0.012  # one step of 18 tokens at most takes 0.0109
    assert report.records.series["sent"].values[-1] > 10 * report.records.series["arrived"].values[-1]


def test_without_a_limit_nobody_waits_at_the_client() -> None:
    report = serq.run(program())
    assert (np.sort(samples(report, "sent")) == samples(report, "arrived")).all()


def test_lengths_are_every_whole_number_of_the_range_equally_often() -> None:
    report = serq.run(program())
    for name, low, high in (("prompt", 6, 18), ("output", 3, 9)):
        values, counts = np.unique(samples(report, name), return_counts=True)
        assert values.tolist() == list(range(low, high + 1))
        assert stats.chisquare(counts).pvalue > SMALLEST_P


@pytest.mark.parametrize(
    ("length", "ratio", "expected"),
    [(7, "0", {7}), (1, "0.9", {1, 2}), (3, "1/3", {2, 3, 4}), (5, "0.5", {2, 3, 4, 5, 6, 7, 8})],
)
def test_ends_of_a_range_are_rounded_outwards_and_above_nothing(
    length: int, ratio: str, expected: set[int]
) -> None:
    text = f"""use "serq/load.sq"; workload {{ arrive batch(300); }}
    session {{ observe n = random_length({length}, {ratio}); }} run {{ horizon 1; }}"""
    assert set(serq.run(serq.compile(source=text)).records.series["n"].values) == expected


def test_the_shared_prefix_is_computed_once() -> None:
    report = serq.run(program(prefix_len=64))
    cached = report.records.series["cached"].values
    assert cached[0] == 0 and set(cached[50:]) == {64}


def sharegpt(name: str) -> np.ndarray:
    text = f"""use "serq/load.sq"; workload {{ arrive batch(20000); }}
    session {{ observe n = sharegpt_{name}(); }} run {{ horizon 1; }}"""
    return samples(serq.run(serq.compile(source=text)), "n")


def test_conversation_lengths_have_the_statistics_they_state() -> None:
    prompt, output = sharegpt("prompt"), sharegpt("output")
    assert prompt.mean() == pytest.approx(862.3, rel=0.02)
    assert prompt.var() / prompt.mean() ** 2 == pytest.approx(0.414, rel=0.1)
    at = [0, 25, 50, 75, 90, 99, 100]
    assert np.percentile(output, at) == pytest.approx([512, 565.75, 638, 769, 785, 1001, 1224], rel=0.01)


def test_conversation_lengths_fit_the_public_requests() -> None:
    path = shared("data", "measured", "RTXPRO6000", "Qwen3-32B", "run", "requests.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for name, column in (("prompt", "input_toks"), ("output", "output_toks")):
        assert stats.ks_2samp(sharegpt(name), [row[column] for row in rows]).pvalue > 0.05
