"""The figures of a report that a program can ask about, by the kind of row that has them.

The report has one row an observation, a gauge, a stage member, a pool member and an engine, and figures of
the whole run; the fields are those of its tables, under the same names. Objectives read requests.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from serq.ir.expressions import ReportRow

QUANTILES: Final[dict[str, tuple[int, int]]] = {
    **{f"p{percent}": (percent, 100) for percent in range(50, 100)},
    "p999": (999, 1000),
}
"""Quantile -> its share of the samples as a fraction (design_language.md)."""

STATISTICS: Final = ("mean", *QUANTILES)
"""What an objective may limit."""

RequestLatency = Literal["ttft", "tpot", "itl", "e2e", "queue_time"]
REQUEST_LATENCIES: Final[tuple[RequestLatency, ...]] = get_args(RequestLatency)
"""The metrics of requests that an objective may limit."""

GOODPUT: Final = ("goodput", "goodput_share")
"""Requests within all limits, per second and as a share: figures of a run with objectives."""

_LATENCY_COLUMNS: Final = tuple(
    f"{metric}_{statistic}" for metric in ("ttft", "tpot", "e2e") for statistic in ("mean", "p50", "p99")
)

FIELDS: Final[dict[ReportRow, tuple[str, ...]]] = {
    "run": (
        *("end", "horizon", "warmup", "seed", "events", "arrivals", "ended", "turns", "mean_live"),
        *GOODPUT,
    ),
    "observation": ("count", "mean", "ci", "cv2", "smallest", "largest", *QUANTILES),
    "gauge": ("mean", "smallest", "largest"),
    "stage": (
        *("mean_number", "utilization", "completed", "throughput", "mean_wait", "mean_service"),
        "iterations",
    ),
    "pool": (
        *("mean_used", "mean_cached", "mean_queue", "mean_holders", "mean_wait", "admissions"),
        *("evicted_entries", "evicted_units", "preemptions", "spills", "rejected", "stuck"),
    ),
    "engine": (
        *("requests", "steps", "tokens", "preemptions", "prefix_hit_rate", "mean_kv_usage", "dummy_steps"),
        *_LATENCY_COLUMNS,
    ),
}
"""Kind of row -> its figures. Those of `run` stand alone, all others take the name of their row."""
