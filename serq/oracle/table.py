"""A trace as a table: requests as rows, steps as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

LEGEND = (
    "tokens per step; + admitted, > resumed, /d of them drafts, x preempted, . waiting or without a share, "
    "! ended"
)

_MARKS = {"n": "+", "r": ">", "c": ""}

Step = dict[str, Any]


def step_table(steps: Sequence[Step], requests: Sequence[dict[str, Any]], *, width: int = 100) -> str:
    """The table of ``steps``, broken into parts no wider than ``width`` characters."""
    rows = _rows(steps, requests)
    label = max(len(name) for name, _ in rows)
    parts = []
    for columns in _parts(rows, len(steps), width - label):
        lines = [
            name.ljust(label) + "".join(cells[column].rjust(size) for column, size in columns)
            for name, cells in rows
        ]
        parts.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(parts)


def _rows(steps: Sequence[Step], requests: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    rows = [("step", [str(step["i"]) for step in steps]), ("t", [str(step["t"]) for step in steps])]
    for request in requests:
        cells = [_cell(request, step) for step in steps]
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


def _hits(step: Step) -> Iterable[tuple[str, list[int]]]:
    return ((name, hit) for name, hit in step.get("hit", {}).items() if any(hit))


def _cell(request: dict[str, Any], step: Step) -> str:
    """What ``step`` did for ``request``; empty before its arrival and after its end."""
    name = request["id"]
    ended = "!" if name in step.get("done", ()) else ""
    for who, tokens, kind, _, drafts in step["s"]:
        if who == name:
            return f"{_MARKS[kind]}{tokens}{f'/{drafts}' if drafts else ''}{ended}"
    if name in step.get("pre", ()):
        return "x"
    finish = request["finish"]
    here = request["arrival"] <= step["t"] and (finish is None or step["t"] < finish)
    return "." + ended if here else ended


def _parts(
    rows: Sequence[tuple[str, list[str]]], count: int, width: int
) -> Iterable[list[tuple[int, int]]]:
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
