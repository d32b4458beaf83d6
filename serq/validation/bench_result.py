"""The detailed result of `vllm bench serve --save-result --save-detailed`: what the client saw.

Requests that failed are left out of the comparison, and said so; they had their effect on the engine, which a
replay without them lacks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serq.errors import DataError
from serq.validation.fields import read_object
from serq.validation.measured_run import MeasuredRequest, MeasuredRun, Stated

_COLUMNS = ("input_lens", "output_lens", "ttfts", "itls", "start_times")


def read_bench_result(path: Path) -> MeasuredRun:
    """Read a result file. Raises DataError naming the file, the column and the request."""
    result = read_object(path, "benchmark result")
    columns = [_column(result, name, path) for name in _COLUMNS]
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in zip(_COLUMNS, columns, strict=True))
        raise DataError(f"{path}: columns of different lengths: {lengths}")
    errors = result.get("errors") or [""] * len(columns[0])
    requests, failed = [], 0
    for index, (values, error) in enumerate(zip(zip(*columns, strict=True), errors, strict=False)):
        if error:
            failed += 1
        else:
            requests.append(_request(values, f"{path}: request {index}"))
    if not requests:
        raise DataError(f"{path}: no request that succeeded")
    start = min(request.arrival for request in requests)
    shifted = tuple(
        MeasuredRequest(
            r.prompt_tokens, r.output_tokens, r.arrival - start, None, r.first - start, r.last - start
        )
        for r in requests
    )
    stated = {}
    if isinstance(result.get("model_id"), str):
        stated["model"] = Stated(result["model_id"], f"{path.name}, model_id")
    return MeasuredRun(path, shifted, stated, failed=failed)


def _column(result: dict[str, Any], name: str, path: Path) -> list[Any]:
    column = result.get(name)
    if isinstance(column, list):
        return column
    hint = "written by `vllm bench serve --save-result --save-detailed`"
    if name == "start_times":
        hint += "; versions before `start_times` do not tell when a request was sent"
    raise DataError(f"{path}: no list `{name}` ({hint})")


def _request(values: tuple[Any, ...], place: str) -> MeasuredRequest:
    prompt, output, ttft, gaps, start = values
    for name, value in (("input_lens", prompt), ("output_lens", output)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DataError(f"{place}: {name} is {value!r}, not a whole number above 0")
    for name, value in (("ttfts", ttft), ("start_times", start)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise DataError(f"{place}: {name} is {value!r}, not a time in seconds")
    if not (isinstance(gaps, list) and all(isinstance(gap, int | float) and gap >= 0 for gap in gaps)):
        raise DataError(f"{place}: itls is not a list of times in seconds")
    first = start + ttft
    return MeasuredRequest(prompt, output, start, None, first, first + sum(gaps))
