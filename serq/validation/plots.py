"""Measured and predicted in one picture: distributions of TTFT, TPOT and latency, and tokens over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from serq.errors import DataError
from serq.validation.compare import WINDOW

if TYPE_CHECKING:
    from serq.validation.report import ValidationReport

_AXES = {
    "ttft": "time to first token, s",
    "tpot": "time per output token, s",
    "e2e": "latency, s",
}
_MEASURED, _PREDICTED = "#222222", "#d1495b"


def draw(report: ValidationReport, folder: Path) -> list[Path]:
    """Write `latencies.png`, `throughput.png` and `requests.png`. Raises DataError where it cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [
            _save(_latencies(report), folder / "latencies.png"),
            _save(_throughput(report), folder / "throughput.png"),
            _save(_requests(report), folder / "requests.png"),
        ]
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    return path


def _latencies(report: ValidationReport) -> Any:
    """Cumulative distributions, with the error of mean and p99 in the title."""
    figure = _figure(12, 4)
    found = report.comparison
    panels = figure.subplots(1, len(found.metrics), squeeze=False)[0]
    for axes, (metric, by) in zip(panels, found.metrics.items(), strict=True):
        for values, label, colour, style in (
            (found.measured[metric], "measured", _MEASURED, "-"),
            (found.predicted[metric], "predicted", _PREDICTED, "--"),
        ):
            axes.ecdf(values, label=label, color=colour, linestyle=style)
        axes.set_xlabel(_AXES[metric])
        axes.set_ylabel("share of requests")
        axes.set_title(f"mean {by['mean'].percent:+.1f} %, p99 {by['p99'].percent:+.1f} %")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(f"from when a request was {report.origin}")
    return figure


def _throughput(report: ValidationReport) -> Any:
    figure = _figure(9, 4)
    axes = figure.subplots()
    windows = report.comparison.windows
    edges = [index * WINDOW for index in range(len(windows) + 1)]
    axes.stairs([one for one, _ in windows], edges, label="measured", color=_MEASURED)
    axes.stairs([one for _, one in windows], edges, label="predicted", color=_PREDICTED, linestyle="--")
    axes.set_xlabel("time, s")
    axes.set_ylabel("generated tokens a second")
    axes.set_title(
        f"off by {report.comparison.throughput_error:.1f} % of the mean in windows of {WINDOW:g} s"
    )
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def _requests(report: ValidationReport) -> Any:
    """First and last token of every request over its arrival."""
    figure = _figure(9, 5)
    axes = figure.subplots()
    for requests, label, colour, marker in (
        (report.run.requests, "measured", _MEASURED, "o"),
        (report.prediction.requests, "predicted", _PREDICTED, "x"),
    ):
        for name, size in (("first", 10), ("last", 22)):
            axes.scatter(
                [request.arrival for request in requests],
                [getattr(request, name) for request in requests],
                s=size,
                marker=marker,
                color=colour,
                facecolors="none" if marker == "o" else None,
                linewidths=0.8,
                label=f"{label}, {name} token",
            )
    axes.set_xlabel("arrival, s")
    axes.set_ylabel("token came, s")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
