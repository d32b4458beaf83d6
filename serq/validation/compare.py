"""How far a prediction is from a measured run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from serq.validation.measured_run import MeasuredRun
from serq.validation.replay import Prediction

WINDOW = 5.0
"""Seconds over which generated tokens are counted."""

_PERCENTILES = (("p50", 0.50), ("p90", 0.90), ("p95", 0.95), ("p99", 0.99))
STATISTICS = ("mean", *(name for name, _ in _PERCENTILES))


@dataclass(frozen=True, slots=True)
class Error:
    """A measured and a predicted figure. ``percent`` is above 0 where the prediction is."""

    measured: float
    predicted: float

    @property
    def percent(self) -> float:
        """The error in percent of what was measured."""
        return math.nan if not self.measured else 100 * (self.predicted / self.measured - 1)


class Timed(Protocol):
    """When the first and the last token of a request came, in seconds."""

    @property
    def first(self) -> float:
        """The first token."""

    @property
    def last(self) -> float:
        """The last token."""


Samples = dict[str, list[float]]
"""Seconds by metric: ttft, tpot, e2e."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors of a run.

    ``metrics`` by metric and statistic, from the engine's taking a request in (from the sending where only
    the client's times are known); ``from_arrival`` the same from the sending. ``windows`` are tokens a second
    in windows of ``WINDOW`` seconds, measured and predicted. ``request_errors`` are the sizes of the relative
    errors of e2e, request by request, in percent.
    """

    measured: Samples
    predicted: Samples
    metrics: dict[str, dict[str, Error]]
    from_arrival: dict[str, dict[str, Error]]
    makespan: Error
    queue_delay: Error | None
    windows: tuple[tuple[float, float], ...]
    request_errors: tuple[float, ...]

    @property
    def throughput_error(self) -> float:
        """Mean size of the difference in a window, in percent of the measured mean."""
        total = math.fsum(measured for measured, _ in self.windows)
        off = math.fsum(abs(measured - predicted) for measured, predicted in self.windows)
        return 100 * off / total if total else math.nan


def compare(run: MeasuredRun, prediction: Prediction) -> Comparison:
    """Compare like with like: both sides from the same instant of the same request."""
    outputs = [request.output_tokens for request in run.requests]
    measured_arrival = samples(run.requests, [r.arrival for r in run.requests], outputs)
    predicted_arrival = samples(prediction.requests, [r.arrival for r in prediction.requests], outputs)
    from_arrival = errors(measured_arrival, predicted_arrival)
    measured, predicted, metrics, queue_delay = measured_arrival, predicted_arrival, from_arrival, None
    taken = [r.queued for r in run.requests if r.queued is not None]
    if not run.from_client:
        measured = samples(run.requests, taken, outputs)
        predicted = samples(prediction.requests, [r.queued for r in prediction.requests], outputs)
        metrics = errors(measured, predicted)
        queue_delay = Error(
            mean([at - r.arrival for at, r in zip(taken, run.requests, strict=True)]),
            mean([r.queued - r.arrival for r in prediction.requests]),
        )
    return Comparison(
        measured,
        predicted,
        metrics,
        from_arrival,
        Error(max(r.last for r in run.requests), prediction.makespan),
        queue_delay,
        tuple(zip(*_windows(run, prediction), strict=True)),
        tuple(
            abs(Error(one, other).percent)
            for one, other in zip(measured["e2e"], predicted["e2e"], strict=True)
            if one > 0
        ),
    )


def samples(requests: Sequence[Timed], origins: Sequence[float], outputs: Sequence[int]) -> Samples:
    """TTFT and e2e latency from ``origins``; TPOT is (last - first) / (output - 1), of outputs above 1."""
    return {
        "ttft": [r.first - origin for r, origin in zip(requests, origins, strict=True)],
        "tpot": [(r.last - r.first) / (n - 1) for r, n in zip(requests, outputs, strict=True) if n > 1],
        "e2e": [r.last - origin for r, origin in zip(requests, origins, strict=True)],
    }


def errors(measured: Samples, predicted: Samples) -> dict[str, dict[str, Error]]:
    """The errors of mean and percentiles; a metric without samples is left out."""
    return {
        metric: {
            name: Error(one, other)
            for name, one, other in zip(
                STATISTICS, _statistics(values), _statistics(predicted[metric]), strict=True
            )
        }
        for metric, values in measured.items()
        if values
    }


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, correctly rounded before the division."""
    return math.fsum(values) / len(values)


def percentile(values: Iterable[float], share: float) -> float:
    """The percentile between the two nearest ranks, linearly; NaN of nothing."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _statistics(values: Sequence[float]) -> list[float]:
    return [mean(values), *(percentile(values, share) for _, share in _PERCENTILES)]


def _windows(run: MeasuredRun, prediction: Prediction) -> tuple[list[float], list[float]]:
    """Tokens a second by window: logged against delivered, or both spread evenly between first and last."""
    end = max(prediction.makespan, *(request.last for request in run.requests))
    count = int(end // WINDOW) + 1
    if run.rates:
        starts = [0.0, *(at for at, _ in run.rates[:-1])]
        logged = [(at, rate * (at - start)) for start, (at, rate) in zip(starts, run.rates, strict=True)]
        return _rates(logged, count), _rates(prediction.deliveries, count)
    outputs = [request.output_tokens for request in run.requests]
    return (
        _rates(_spread(run.requests, outputs), count),
        _rates(_spread(prediction.requests, outputs), count),
    )


def _rates(deliveries: Iterable[tuple[float, float]], count: int) -> list[float]:
    """Tokens a second in each window; a delivery at the very end of a window belongs to it."""
    tokens = [0.0] * count
    for at, number in deliveries:
        tokens[min(max(math.ceil(at / WINDOW) - 1, 0), count - 1)] += number
    return [number / WINDOW for number in tokens]


def _spread(requests: Sequence[Timed], outputs: Sequence[int]) -> Iterable[tuple[float, float]]:
    for request, number in zip(requests, outputs, strict=True):
        yield request.first, 1
        for index in range(1, number):
            yield request.first + (request.last - request.first) * index / (number - 1), 1
