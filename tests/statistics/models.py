"""The models whose mean response time is known, as programs, and how long each must run.

A batch-means interval is honest when a batch is much longer than the time over which the queue remembers.
For a single server at load r that time is about 1 / (1 - sqrt(r))^2 services, more where services vary more.
Each batch (a twentieth of a run) is at least 28 of them; where they are short, more, so that the means of the
batches are near enough to normal. The warm-up is ten of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.statistics.closed_forms import (
    SQUARED_VARIATION,
    mg1_response,
    processor_sharing_response,
    repair_response,
    think_time_for,
)

LOADS = (0.5, 0.8)
BATCHES = 20
CLIENTS = 8
SERVICE = {"exp": "~exp(1)", "det": "1", "h2": "~h2(1, 4)", "erlang": "~erlang(3, 1)"}

OPEN = """
stage server : {stage};
workload {{ arrive poisson({load}); init {{ set service = {service}; }} }}
session {{ set sent = now; run server (service); observe response = now - sent; }}
run {{ horizon {horizon}; warmup {warmup}; }}
"""

CLOSED = """
stage server : fifo;
stage think : delay;
workload {{ arrive closed({clients}); }}
session {{
  loop {{
    run think (~exp({think}));
    set sent = now;
    run server (~exp(1));
    observe response = now - sent;
  }}
}}
run {{ horizon {horizon}; warmup {warmup}; }}
"""


@dataclass(frozen=True)
class Model:
    """A program, the true mean of its observation ``response``, and what it is called."""

    name: str
    source: str
    truth: float


def memory(load: float) -> float:
    """Relaxation time of M/M/1 in mean services."""
    return 1 / (1 - load**0.5) ** 2


def models(length: float = 1.0) -> Iterator[Model]:
    """All models at all loads; ``length`` scales the runs (1: long enough for 400 honest intervals)."""
    for load in LOADS:
        for law in SERVICE:
            yield _open(f"M/{law}/1", "fifo", law, load, mg1_response(load, SQUARED_VARIATION[law]), length)
        for law in SERVICE:
            yield _open(f"M/{law}/1-PS", "ps(1)", law, load, processor_sharing_response(load), length)
        yield _closed(load, length)


def _open(name: str, stage: str, law: str, load: float, truth: float, length: float) -> Model:
    spread = max(1, (1 + SQUARED_VARIATION[law]) / 2)
    remembered = memory(load) * spread
    horizon = BATCHES * max(28 * remembered, 1200 * spread) * length
    source = OPEN.format(
        stage=stage,
        load=load,
        service=SERVICE[law],
        horizon=horizon + 10 * remembered,
        warmup=10 * remembered,
    )
    return Model(f"{name} at {load}", source, truth)


def _closed(load: float, length: float) -> Model:
    think = think_time_for(CLIENTS, load)
    remembered = think + CLIENTS
    horizon = BATCHES * 28 * remembered * length
    source = CLOSED.format(
        clients=CLIENTS, think=think, horizon=horizon + 10 * remembered, warmup=10 * remembered
    )
    return Model(f"M/M/1//{CLIENTS} at {load}", source, repair_response(CLIENTS, think))
