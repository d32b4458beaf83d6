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

ENGINE_LATENCIES: Final = ("ttft", "tpot", "e2e", "normalized_latency")
"""The latencies of the requests of an engine."""

_OF_LATENCY: Final = (
    *("mean", "ci", "p50", "p50_low", "p50_high", "p90", "p90_low", "p90_high"),
    *("p99", "p99_low", "p99_high"),
)
_LATENCY_COLUMNS: Final = tuple(f"{name}_{figure}" for name in ENGINE_LATENCIES for figure in _OF_LATENCY)
_THROUGHPUT: Final = ("request_throughput", "input_throughput", "output_throughput")

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
        *_THROUGHPUT,
        *_LATENCY_COLUMNS,
    ),
}
"""Kind of row -> its figures. Those of `run` stand alone, all others take the name of their row."""
