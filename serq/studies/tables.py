"""The tables of a study: one row a run, and one row a point with intervals over its replications."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from serq.studies.replications import Interval, interval, paired_change

RUN_COLUMNS: Final = ("run", "point", "replication", "seed")


def run_table(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a run: what identifies it, its settings, its failure and its figures."""
    names = _names(run["figures"] for run in runs)
    return [
        {
            **{name: run[name] for name in RUN_COLUMNS},
            **run["sets"],
            "failure": run["failure"],
            **{name: run["figures"].get(name) for name in names},
        }
        for run in runs
    ]


def point_table(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a point: its settings, how many runs ended and failed, and mean and 95 % half-width by figure.

    A figure's ``ci95`` column is empty where fewer than two replications determine it. Failed runs do not
    count.
    """
    names = _names(run["figures"] for run in runs)
    points: dict[int, list[Mapping[str, Any]]] = {}
    for run in runs:
        points.setdefault(run["point"], []).append(run)
    return [_point_row(point, mine, names) for point, mine in sorted(points.items())]


def _point_row(point: int, runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    ended = [run["figures"] for run in runs if run["failure"] is None]
    row: dict[str, Any] = {
        "point": point,
        **runs[0]["sets"],
        "runs": len(ended),
        "failed": len(runs) - len(ended),
    }
    for name in names:
        values = [figures[name] for figures in ended if figures.get(name) is not None]
        result = interval(values) if values else Interval(None, None)
        row[name] = result.mean
        row[f"{name}.ci95"] = result.half_width
    return row


def change_table(
    runs: Sequence[Mapping[str, Any]],
    settings: Sequence[str],
    figure: str,
    varied: str,
    before: str,
    after: str,
) -> list[dict[str, Any]]:
    """How far a figure changes where the setting ``varied`` goes from ``before`` to ``after``.

    ``runs`` are rows of :func:`run_table`. One row for every combination of the other settings: the relative
    change, mean and 95 % half-width over pairs of runs with the same seed. Runs without the figure have no
    partner.
    """
    others = [name for name in settings if name != varied]
    found: dict[tuple[str, ...], dict[str, dict[int, float]]] = {}
    for run in runs:
        if run[varied] in (before, after) and run["failure"] is None and run.get(figure) is not None:
            key = tuple(run[name] for name in others)
            found.setdefault(key, {}).setdefault(run[varied], {})[run["seed"]] = run[figure]
    rows = []
    for key, by_value in found.items():
        old, new = by_value.get(before, {}), by_value.get(after, {})
        seeds = sorted(old.keys() & new.keys())
        if seeds:
            change = paired_change([old[seed] for seed in seeds], [new[seed] for seed in seeds])
            rows.append(
                {
                    **dict(zip(others, key, strict=True)),
                    "pairs": len(seeds),
                    "change": change.mean,
                    "change.ci95": change.half_width,
                }
            )
    return rows


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every figure that some run has, in order of first appearance."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV; empty fields for what is not there."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
