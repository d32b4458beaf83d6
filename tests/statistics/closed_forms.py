"""Mean response times of queueing theory, computed from the parameters alone. Services have mean 1."""

from __future__ import annotations

from math import log1p, prod

SQUARED_VARIATION = {"exp": 1.0, "det": 0.0, "h2": 4.0, "erlang": 1 / 3}
"""Squared coefficient of variation of each service distribution that the models use."""


def mg1_response(load: float, squared_variation: float) -> float:
    """M/G/1, first come first served: Pollaczek and Khinchine, W = load (1 + cv2) / (2 (1 - load))."""
    return 1 + load * (1 + squared_variation) / (2 * (1 - load))


def mm1_response_quantile(mean: float, share: float) -> float:
    """M/M/1, first come first served: response times are exponential, so P(T <= t) = 1 - exp(-t / mean)."""
    return -mean * log1p(-share)


def processor_sharing_response(load: float) -> float:
    """M/G/1 with processor sharing: 1 / (1 - load), whatever the distribution."""
    return 1 / (1 - load)


def repair_response(clients: int, think: float) -> float:
    """M/M/1//N: clients think for an exponential time of mean ``think``, one server serves them.

    The number at the server is a birth and death process; p(n) ~ N!/(N-n)! think^-n. The response time
    follows from the throughput X = 1 - p(0): clients / X - think.
    """
    weights = [prod((clients - i) / think for i in range(n)) for n in range(clients + 1)]
    throughput = 1 - weights[0] / sum(weights)
    return clients / throughput - think


def think_time_for(clients: int, load: float) -> float:
    """The think time at which the server of :func:`repair_response` is busy for ``load`` of the time."""
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = (low * high) ** 0.5
        busy = clients / (repair_response(clients, middle) + middle)
        low, high = (middle, high) if busy > load else (low, middle)
    return low
