"""A trace as a table: requests as rows, steps as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from serq.errors import DataError, UsageError

LEGEND = (
    "tokens; + admitted, > resumed, /n of them drafts, x preempted, . waits, - runs without a share, ! ended"
)

_MARKS = {"n": "+", "r": ">", "c": ""}

Step = dict[str, Any]

_AtLeastTwo = Annotated[list[int], msgspec.Meta(min_length=2)]


class _ShownStep(TypedDict):
    """The fields of a recorded step that a table shows."""

    i: int
    t: float
    s: list[tuple[str, int, Literal["n", "r", "c"], int, int]]
    tok: int
    q: _AtLeastTwo
    free: _AtLeastTwo
    pre: NotRequired[list[str]]
    done: NotRequired[list[str]]
    hit: NotRequired[dict[str, tuple[int, int]]]
    blk: NotRequired[dict[str, list[list[int]]]]


class _ShownRequest(TypedDict):
    id: str
    arrival: float
    finish: float | None


def step_table(
    steps: Sequence[Step],
    requests: Sequence[dict[str, Any]],
    start: int,
    end: int,
    *,
    width: int = 100,
    blocks: Sequence[str] = (),
) -> str:
    """The table of ``steps[start:end]``, broken into parts no wider than ``width`` characters.

    For the ids in ``blocks`` it also says how many blocks they hold in each KV cache group. Raises DataError
    for a trace in which something else stands where the table reads,
    UsageError for an id that no request has.
    """
    try:
        msgspec.convert((steps, requests), tuple[list[_ShownStep], list[_ShownRequest]])
    except msgspec.ValidationError as error:
        raise DataError(f"the trace cannot be shown: {error}") from error
    unknown = set(blocks) - {request["id"] for request in requests}
    if unknown:
        raise UsageError(f"the trace has no request {min(unknown)} whose blocks could be shown")
    rows = _rows(steps[start:end], requests, _running_after(steps[:start]))
    for request_id in blocks:
        rows += _block_rows(steps[start:end], request_id)
    label = max(len(name) for name, _ in rows)
    parts = []
    for columns in _parts(rows, len(rows[0][1]), width - label):
        lines = [
            name.ljust(label) + "".join(cells[column].rjust(size) for column, size in columns)
            for name, cells in rows
            if any(cells[column] for column, _ in columns)
        ]
        parts.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(parts)


def _running_after(steps: Iterable[Step]) -> set[str]:
    """Ids admitted and neither preempted nor ended with an output in ``steps``."""
    running: set[str] = set()
    for step in steps:
        running.update(row[0] for row in step["s"])
        running.difference_update(step.get("pre", ()), step.get("done", ()))
    return running


def _rows(
    steps: Sequence[Step], requests: Sequence[dict[str, Any]], running: set[str]
) -> list[tuple[str, list[str]]]:
    rows = [("step", [str(step["i"]) for step in steps]), ("t", [str(step["t"]) for step in steps])]
    for request in requests:
        cells = _cells(request, steps, request["id"] in running)
        if any(cells):
            rows.append((request["id"], cells))
    rows.append(("tokens", [str(step["tok"]) for step in steps]))
    rows.append(("running", [str(step["q"][0]) for step in steps]))
    rows.append(("waiting", [str(step["q"][1]) for step in steps]))
    rows.append(("free", [str(step["free"][1]) for step in steps]))
    hits = [",".join(f"{i}:{local}+{ext}" for i, (local, ext) in _hits(step)) for step in steps]
    if any(hits):
        rows.append(("hit", hits))
    return rows


def _block_rows(steps: Sequence[Step], request_id: str) -> list[tuple[str, list[str]]]:
    """Blocks of ``request_id`` by group, null blocks not counted; empty where it has no share."""
    tables = [step.get("blk", {}).get(request_id, []) for step in steps]
    count = max((len(table) for table in tables), default=0)
    held = [[str(sum(block != 0 for block in group)) for group in table] or [""] * count for table in tables]
    return [(f"{request_id} group {group}", [row[group] for row in held]) for group in range(count)]


def _hits(step: Step) -> Iterable[tuple[str, list[int]]]:
    return ((name, hit) for name, hit in step.get("hit", {}).items() if any(hit))


def _cells(request: dict[str, Any], steps: Sequence[Step], runs: bool) -> list[str]:
    """What each step did for ``request``; empty before its arrival and after its end."""
    name, finish = request["id"], request["finish"]
    cells = []
    for step in steps:
        share = next((row for row in step["s"] if row[0] == name), None)
        ended = "!" if name in step.get("done", ()) else ""
        if share is not None:
            _, tokens, kind, _, drafts = share
            runs = True
            cells.append(f"{_MARKS[kind]}{tokens}{f'/{drafts}' if drafts else ''}{ended}")
        elif name in step.get("pre", ()):
            runs = False
            cells.append("x" + ended)
        else:
            here = request["arrival"] <= step["t"] and (finish is None or step["t"] < finish)
            cells.append((("-" if runs else ".") if here else "") + ended)
    return cells


def _parts(rows: Sequence[tuple[str, list[str]]], count: int, width: int) -> Iterable[list[tuple[int, int]]]:
    """(column, its width) of each part."""
    part: list[tuple[int, int]] = []
    used = 0
    for column in range(count):
        size = max(len(cells[column]) for _, cells in rows) + 1
        if part and used + size > width:
            yield part
            part, used = [], 0
        part.append((column, size))
        used += size
    if part:
        yield part
