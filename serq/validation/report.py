"""What a validation found, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from serq.kernels.executor import Evidence
from serq.results.tables import Table
from serq.results.text import aligned
from serq.validation.compare import STATISTICS, WINDOW, Comparison, Error, percentile
from serq.validation.measured_run import MeasuredRun
from serq.validation.replay import Prediction
from serq.validation.setup import Setup

SCHEDULER_VERSION: Final = "0.27.1"
"""The vLLM whose scheduler our engine is."""

_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "latency"}


@dataclass(frozen=True)
class ValidationReport:
    """A measured run, what the model predicts for it, and the errors.

    ``str`` is the report as text; :meth:`to_json` as one JSON object.
    """

    run: MeasuredRun
    setup: Setup
    prediction: Prediction
    comparison: Comparison

    def __str__(self) -> str:
        return "\n".join(self._lines())

    @property
    def origin(self) -> str:
        """From when TTFT and latency are counted on both sides."""
        return "sent by the client" if self.run.from_client else "taken in by the engine (queued_ts)"

    def to_json(self) -> str:
        """One JSON object; times in seconds, errors in percent of what was measured."""
        found, prediction = self.comparison, self.prediction
        return json.dumps(
            {
                "run": str(self.run.path),
                "requests": len(self.run.requests),
                "origin": "arrival" if self.run.from_client else "queued_ts",
                "metrics": _metrics_json(found.metrics),
                "metrics_from_arrival": _metrics_json(found.from_arrival),
                "queue_delay": None if found.queue_delay is None else _error_json(found.queue_delay),
                "makespan": _error_json(found.makespan),
                "request_latency_error_pct": {
                    name: _known(percentile(found.request_errors, share))
                    for name, share in (("p50", 0.5), ("p90", 0.9))
                },
                "throughput": {
                    "window_s": WINDOW,
                    "mean_abs_error_pct": _known(found.throughput_error),
                    "measured": [measured for measured, _ in found.windows],
                    "predicted": [predicted for _, predicted in found.windows],
                },
                "steps": prediction.steps,
                "preemptions": sum(request.preemptions for request in prediction.requests),
                "prefix_hit_tokens": prediction.hit_tokens,
                "evidence": {evidence.value: share for evidence, share in self.evidence.items()},
                "operators": self.operators,
                "versions": self.versions,
                "settings": [setting._asdict() for setting in self.setup.settings],
                "notes": list(self.setup.notes),
            },
            allow_nan=False,
        )

    @property
    def versions(self) -> dict[str, str]:
        """The engine versions of the run, of the tables, and the one whose scheduler was replayed."""
        return {
            "run": self.run.text("engine_version") or "not stated",
            "tables": self.setup.executor.tables.provenance.engine_version or "not stated",
            "scheduler": SCHEDULER_VERSION,
        }

    @property
    def evidence(self) -> dict[Evidence, float]:
        """The share of the predicted device seconds that rests on each kind of evidence."""
        shares = dict.fromkeys(Evidence, 0.0)
        for (_, evidence), seconds in self.prediction.seconds.items():
            shares[evidence] += seconds / self._device_seconds
        return shares

    @property
    def operators(self) -> dict[str, float]:
        """Predicted device seconds by operator, the largest first."""
        seconds: dict[str, float] = {}
        for (operator, _), part in self.prediction.seconds.items():
            seconds[operator] = seconds.get(operator, 0.0) + part
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))

    @property
    def _device_seconds(self) -> float:
        return sum(self.prediction.seconds.values())

    # ---- text -----------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[str]:
        found, prediction = self.comparison, self.prediction
        tables = self.setup.executor.tables
        yield f"{self.run.path}: {len(self.run.requests)} requests of {self.run.text('model') or 'a model'}"
        versions = self.versions
        yield (
            f"vLLM {versions['run']} in the run, {versions['tables']} in the tables ({tables.folder}, "
            f"{tables.provenance.gpu or 'device not stated'}); scheduler of vLLM {versions['scheduler']}"
        )
        yield ""
        yield f"error of the prediction in percent; {self.origin}"
        yield from aligned(_error_table(found.metrics))
        if found.queue_delay is not None:
            yield ""
            yield "the same from the sending by the client"
            yield from aligned(_error_table(found.from_arrival))
        yield ""
        yield from aligned(self._mean_table())
        yield ""
        middle, most = (percentile(found.request_errors, share) for share in (0.5, 0.9))
        yield f"latency request by request: off by {middle:.1f} % in the median, {most:.1f} % at p90"
        yield f"tokens a second in windows of {WINDOW:g} s: off by {found.throughput_error:.1f} % of the mean"
        yield (
            f"{prediction.steps} steps, {sum(r.preemptions for r in prediction.requests)} preemptions, "
            f"{prediction.hit_tokens} prompt tokens found in the prefix cache"
        )
        shares = [f"{share:.1%} {kind.value}" for kind, share in self.evidence.items() if share]
        yield f"device seconds rest on: {', '.join(shares)}"
        yield ""
        yield from aligned(self._operator_table())
        yield ""
        yield from aligned(self._setting_table())
        for note in self.setup.notes:
            yield f"note: {note}"

    def _mean_table(self) -> Table:
        found = self.comparison
        rows = {_NAMES[metric]: by["mean"] for metric, by in found.metrics.items()}
        if found.queue_delay is not None:
            rows["until taken in"] = found.queue_delay
        rows["last token"] = found.makespan
        return Table(
            ("mean in s", "measured", "predicted"),
            tuple((name, f"{e.measured:.4f}", f"{e.predicted:.4f}") for name, e in rows.items()),
        )

    def _operator_table(self) -> Table:
        total = self._device_seconds
        return Table(
            ("operator", "s", "share"),
            tuple((name, f"{s:.3f}", f"{s / total:.1%}") for name, s in self.operators.items()),
        )

    def _setting_table(self) -> Table:
        rows = tuple((f"{s.name} {s.value}", s.source) for s in self.setup.settings)
        width = max(len(source) for _, source in rows)
        return Table(("setting", "source".ljust(width)), tuple((n, s.ljust(width)) for n, s in rows))

    def plot(self, folder: Path) -> list[Path]:
        """Draw the run into ``folder`` as PNG files, which are named."""
        from serq.validation.plots import draw

        return draw(self, folder)


def _error_table(metrics: dict[str, dict[str, Error]]) -> Table:
    return Table(
        ("", *STATISTICS),
        tuple(
            (_NAMES[metric], *(f"{by[name].percent:+.1f}" for name in STATISTICS))
            for metric, by in metrics.items()
        ),
    )


def _metrics_json(metrics: dict[str, dict[str, Error]]) -> dict[str, dict[str, dict[str, Any]]]:
    return {
        metric: {name: _error_json(error) for name, error in by.items()} for metric, by in metrics.items()
    }


def _error_json(error: Error) -> dict[str, float | None]:
    return {
        "measured": error.measured,
        "predicted": error.predicted,
        "error_pct": _known(error.percent),
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
