"""What the requests of a class, a handle, a stage, an engine, a session or a turn saw: latencies by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from typing import Any, Final, Literal, get_args

import msgspec

from serq.ir.printer import number
from serq.results import metrics
from serq.results.engines import Latency, latency_of
from serq.results.tables import member_namer
from serq.runtime.records import Records
from serq.runtime.request_records import RequestTable

By = Literal["class", "handle", "stage", "engine", "session", "turn"]
"""What requests are grouped by: a column of the table of requests, or the member of a stage (`engine`)."""

BY: Final[tuple[By, ...]] = get_args(By)


class RequestGroup(msgspec.Struct, frozen=True):
    """The requests of a group that were served in full since warm-up, of whichever engine."""

    name: str
    requests: int
    ttft: Latency
    tpot: Latency
    e2e: Latency
    normalized_latency: Latency


def group_name(by: By, value: Any) -> str:
    """What a group is called by the value that its requests have in common; of an engine that is its name."""
    if by in ("handle", "stage", "engine"):
        return str(value)
    if isnan(value):
        return f"no {by}"
    return f"{by} {number(float(value))}"


def group_order(by: By, value: Any, records: Records) -> tuple[bool, Any]:
    """The order of groups: engines as they are declared, others by value, those without one last."""
    if by == "engine":
        return False, engine_names(records).index(value)
    unknown = isinstance(value, float) and isnan(value)
    return unknown, 0.0 if unknown else value


def engine_names(records: Records) -> list[str]:
    """The engines in their order, as tables call them."""
    return list(map(member_namer(records.engines), records.engines))


def value_of(by: By, records: Records) -> Callable[[int], Any]:
    """What gives the value of a request by its place in the table."""
    table, engines = records.requests, engine_names(records)
    columns: Mapping[By, Callable[[int], Any]] = {
        "class": lambda place: table.label[place],
        "handle": lambda place: table.handle[place],
        "stage": lambda place: records.engines[table.engine[place]].name,
        "engine": lambda place: engines[table.engine[place]],
        "session": lambda place: table.session[place],
        "turn": lambda place: table.turn[place],
    }
    return columns[by]


def request_groups(records: Records, by: By) -> list[RequestGroup]:
    """One row a group that any request was served of."""
    table, value = records.requests, value_of(by, records)
    places: dict[str, list[int]] = {}
    values: dict[str, Any] = {}
    for place in metrics.served_places(table, records.warmup):
        name = group_name(by, value(place))
        values.setdefault(name, value(place))
        places.setdefault(name, []).append(place)
    names = sorted(places, key=lambda name: group_order(by, values[name], records))
    return [_group(name, table, places[name]) for name in names]


def _group(name: str, table: RequestTable, places: list[int]) -> RequestGroup:
    return RequestGroup(
        name=name,
        requests=len(places),
        ttft=latency_of(metrics.ttft, table, places),
        tpot=latency_of(metrics.tpot, table, places),
        e2e=latency_of(metrics.e2e, table, places),
        normalized_latency=latency_of(metrics.normalized_latency, table, places),
    )
