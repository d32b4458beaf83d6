"""The figures of a study in words: what stands at an axis, and which way is better."""

from __future__ import annotations

from typing import Final

_LATENCIES: Final = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "time between tokens",
    "e2e": "end to end",
    "queue_time": "time in the queue",
    "normalized_latency": "end to end, by output token",
}
_UNITS: Final = {
    "per_second": "requests/s",
    "request_throughput": "requests/s",
    "throughput": "1/s",
    "input_tokens_per_second": "tokens/s",
    "output_tokens_per_second": "tokens/s",
    "input_throughput": "tokens/s",
    "output_throughput": "tokens/s",
    "mean_wait": "s",
    "mean_service": "s",
}
_MORE: Final = frozenset(
    {*_UNITS, "share", "within", "met", "good", "prefix_hit_rate", "completed", "requests", "ended"}
) - {"mean_wait", "mean_service"}  # fmt: skip


def axis_label(path: str) -> str:
    """`engines.npu[0].ttft.p99` as a reader says it: `npu[0]: time to first token, p99 [s]`.

    Observations and gauges are in the unit of the program, which nothing says.
    """
    table, rest = path.partition(".")[::2]
    if table == "objectives":
        objective, column = rest.rpartition(".")[::2]
        return f"{objective}: {_words(column)}" if objective else path
    parts = rest.split(".") if rest else []
    if table == "goodput" and len(parts) == 2:
        about = "" if parts[0] == "all" else f" of {parts[0]}"
        return f"goodput{about} [requests/s]" if parts[1] == "per_second" else f"goodput{about}: {parts[1]}"
    if table == "requests":
        return _of_requests("", parts)
    if table == "engines" and len(parts) > 1:
        return _of_requests(f"{parts[0]}: ", parts[1:])
    if table in ("observes", "gauges") and len(parts) == 2:
        return f"{parts[0]}, {parts[1]}"
    if table in ("stages", "pools", "connectors") and len(parts) == 2:
        return f"{parts[0]}: {_with_unit(parts[1])}"
    return path


def _of_requests(owner: str, parts: list[str]) -> str:
    if len(parts) == 2 and parts[0] in _LATENCIES:
        return f"{owner}{_LATENCIES[parts[0]]}, {parts[1]} [s]"
    return owner + _with_unit(parts[-1])


def _with_unit(column: str) -> str:
    named = "requests" if column == "per_second" else _words(column.removesuffix("_per_second"))
    return f"{named} [{_UNITS[column]}]" if column in _UNITS else named


def _words(column: str) -> str:
    return "share within" if column == "within" else column.replace("_", " ")


def more_is_better(path: str) -> bool:
    """Whether one wants the figure large: throughput, goodput, shares that keep a promise."""
    return path.rpartition(".")[2] in _MORE
