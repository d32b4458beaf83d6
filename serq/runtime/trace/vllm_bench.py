"""The detailed result of `vllm bench serve --save-result --save-detailed`, read as the load that was sent.

`input_lens` and `output_lens` are the requests, `start_times`, which not all versions write, when they left.
Requests that failed are left out: how long their answers would have been is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import msgspec

from serq.errors import DataError
from serq.runtime.trace.columns import Trace
from serq.runtime.trace.faults import plain_reason
from serq.runtime.trace.lengths import LengthsRow, parts_of

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]

_KEYS: Final = ('"input_lens"', '"total_input_tokens"')


class _Result(msgspec.Struct):
    input_lens: list[_Count]
    output_lens: list[_Count]
    start_times: list[float] | None = None
    errors: list[str] | None = None


def is_bench_result(first_line: str) -> bool:
    """Whether a line begins such a file, detailed or not, on one line or printed over several."""
    line = first_line.strip()
    return line == "{" or (line.startswith("{") and any(key in line for key in _KEYS))


def vllm_bench_parts(path: str, lines: Iterable[str]) -> Iterator[Trace]:
    """The parts of a result. Raises DataError naming the file and what is wrong in it."""
    try:
        result = msgspec.json.decode("\n".join(lines), type=_Result)
    except msgspec.MsgspecError as error:
        raise DataError(f"{path}: {_complaint(error)}") from None
    columns: dict[str, Sequence[object]] = {
        "input_lens": result.input_lens,
        "output_lens": result.output_lens,
        **({} if result.start_times is None else {"start_times": result.start_times}),
        **({"errors": result.errors} if result.errors else {}),
    }
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise DataError(f"{path}: columns of different lengths: {lengths}")
    rows = [
        LengthsRow(new, out, None if result.start_times is None else result.start_times[request])
        for request, (new, out) in enumerate(zip(result.input_lens, result.output_lens, strict=True))
        if not (result.errors and result.errors[request])
    ]
    if not rows:
        raise DataError(f"{path}: an empty trace: no request that succeeded")
    for part in parts_of(rows):
        part.format = "vllm-bench"
        yield part


def _complaint(error: msgspec.MsgspecError) -> str:
    reason = plain_reason(error)
    if "missing required field" in reason:
        return f"{reason}: a result has lengths when it is written with `--save-result --save-detailed`"
    if "trailing characters" in reason:
        return "several results in one file (`--append-result`): give a file with one"
    return reason
