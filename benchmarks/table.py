"""What was measured, as rows and as a table of text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure import Figures


@dataclass(frozen=True)
class Row:
    """One peer on one workload. Where it did not run, ``note`` says why and the figures are None.

    ``ratio_run`` and ``ratio_process`` are CPU times over those of `serq vllm` under the same price;
    ``agrees`` is None where nothing was compared.
    """

    workload: str
    peer: str
    price: str = ""
    figures: Figures | None = None
    ratio_run: float | None = None
    ratio_process: float | None = None
    agrees: bool | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        fields = asdict(self)
        figures = fields.pop("figures")
        return {**fields, **({} if figures is None else figures)}


_HEAD = ("peer", "price", "run", "CPU", "whole", "CPU", "memory", "steps", "TTFT", "run", "whole", "agrees")
_UNITS = ("", "", "s", "s", "s", "s", "MiB", "", "ms", "ratio", "ratio", "")


def as_text(title: str, rows: Iterable[Row]) -> str:
    """The rows of one workload under their title."""
    cells = [_HEAD, _UNITS, *(_cells(row) for row in rows if row.figures is not None)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    lines = [title]
    for line in cells:
        first, *others = (cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(
            zip(line, widths, strict=True)
        ))  # fmt: skip
        lines.append("  ".join(["", first, *others]).rstrip())
    lines += [f"  {row.peer}: {row.note}" for row in rows if row.note]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    figures = row.figures
    assert figures is not None
    outcome = figures.outcome
    return (
        row.peer,
        row.price,
        _seconds(figures.run_wall),
        _seconds(figures.run_cpu),
        _seconds(figures.process_wall),
        _seconds(figures.process_cpu),
        f"{figures.peak_memory / 2**20:.0f}",
        "-" if outcome.steps is None else f"{outcome.steps:,}",
        "-" if outcome.mean_ttft is None else f"{outcome.mean_ttft * 1000:.6f}",
        _ratio(row.ratio_run),
        _ratio(row.ratio_process),
        {None: "-", True: "yes", False: "NO"}[row.agrees],
    )


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 100 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
