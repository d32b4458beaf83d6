"""What a program reads of a request: every metric of the language, from times and counts set by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest

from serq.ir.expressions import RequestMetric
from serq.runtime.serving.request_reads import READS


def request(**facts: Any) -> Any:
    """Sent at 1, taken in at 2, admitted at 4; 5 tokens in 3 deliveries, from 6 to 14; over at 15."""
    known: dict[str, Any] = {
        "sent_time": 1.0, "queued_time": 2.0, "scheduled_time": 4.0, "first_time": 6.0, "last_time": 14.0,
        "end_time": 15.0, "ready_time": 3.0, "deliveries": 3, "reason": "stop", "cached": 16, "fetched": 32,
        "num_prompt_tokens": 70, "num_output_tokens": 5, "num_preemptions": 2,
    }  # fmt: skip
    return SimpleNamespace(**{**known, **facts})


def test_every_metric_of_the_language_is_read() -> None:
    assert set(READS) == {f"request_{metric}" for metric in get_args(RequestMetric)}


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("sent", 1.0), ("first_token", 6.0), ("last_token", 14.0), ("ttft", 5.0), ("e2e", 14.0),
        ("queue_time", 2.0), ("kv_ready", 3.0), ("tpot", 2.0), ("itl", 4.0), ("prompt_tokens", 70.0),
        ("cached_tokens", 16.0), ("fetched_tokens", 32.0), ("generated", 5.0), ("preempted", 2.0),
        ("stopped", 1.0), ("aborted", 0.0), ("failed", 0.0), ("recomputed", 0.0), ("rejected", 0.0),
    ],
)  # fmt: skip
def test_values(metric: str, value: float) -> None:
    read = READS[f"request_{metric}"](request())
    assert isinstance(read, float)
    assert read == value


@pytest.mark.parametrize(
    ("reason", "metric"),
    [
        ("repetition", "stopped"), ("abort", "aborted"), ("error", "failed"),
        ("recomputed", "recomputed"), ("rejected", "rejected"),
    ],
)  # fmt: skip
def test_how_it_ended(reason: str, metric: str) -> None:
    endings = [f"request_{name}" for name in ("stopped", "aborted", "failed", "recomputed", "rejected")]
    assert [name for name in endings if READS[name](request(reason=reason))] == [f"request_{metric}"]


@pytest.mark.parametrize(("metric", "fact"), [("tpot", "num_output_tokens"), ("itl", "deliveries")])
def test_there_is_no_gap_after_one(metric: str, fact: str) -> None:
    value = READS[f"request_{metric}"](request(**{fact: 1}))
    assert value != value


def test_a_request_that_was_never_let_in_has_nothing_cached() -> None:
    assert READS["request_cached_tokens"](request(cached=None)) == 0.0
