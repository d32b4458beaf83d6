"""A smaller scenario that still shows what a big one showed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
Predicate = Callable[[Json], bool]

_NEEDED = {
    "engine": frozenset(
        {"max_model_len", "max_num_batched_tokens", "max_num_seqs", "num_gpu_blocks", "groups"}
    ),
    "spec": frozenset({"method", "k", "accept"}),
    "kv_connector": frozenset({"name"}),
    "request": frozenset({"id", "t", "prompt", "max_tokens"}),
    "group": frozenset({"kind", "block_size", "window", "chunk", "mode"}),
}


def shrink(scenario: Json, shows: Predicate, max_tests: int = 2000) -> Json:
    """Take things away from ``scenario`` as long as ``shows`` holds, greedily, until nothing can go.

    ``shows`` is asked at most ``max_tests`` times; it must be False for a scenario that cannot be recorded.
    The result is the scenario itself if ``shows`` does not even hold for that.
    """
    tests = 0
    smallest, progress = scenario, True
    while progress:
        progress = False
        for reduce in (_fewer_requests, _fewer_parts, _simpler_fields, _smaller_numbers):
            candidates = reduce(smallest)
            while tests < max_tests and (candidate := next(candidates, None)) is not None:
                tests += 1
                if shows(candidate):
                    smallest, progress = candidate, True
                    candidates = reduce(smallest)
    return smallest


def _fewer_requests(scenario: Json) -> Iterator[Json]:
    """Without a run of requests, long runs first; what refers to a removed one goes too."""
    requests = scenario["requests"]
    size = len(requests) // 2
    while size:
        for start in range(0, len(requests), size):
            kept = requests[:start] + requests[start + size :]
            if kept:
                yield _with_requests(scenario, kept)
        size //= 2


def _with_requests(scenario: Json, kept: list[Json]) -> Json:
    smaller = {**scenario, "requests": deepcopy(kept)}
    ids = {request["id"] for request in kept}
    for request in smaller["requests"]:
        if request.get("continues", {"id": request["id"]})["id"] not in ids:
            del request["continues"]
    events = [event for event in scenario.get("events", ()) if event.get("id") in {None, *ids}]
    return {**smaller, "events": events} if "events" in scenario else smaller


def _fewer_parts(scenario: Json) -> Iterator[Json]:
    """Without speculation, the connector, an event or a group."""
    for name in ("spec", "kv_connector"):
        if name in scenario:
            yield {key: value for key, value in scenario.items() if key != name}
    for index in range(len(scenario.get("events", ()))):
        events = scenario["events"][:index] + scenario["events"][index + 1 :]
        yield {**scenario, "events": events}
    groups = scenario["engine"].get("groups", ())
    for index in range(len(groups) if len(groups) > 1 else 0):
        rest = [*groups[:index], *groups[index + 1 :]]
        yield {**scenario, "engine": {**scenario["engine"], "groups": rest}}


def _simpler_fields(scenario: Json) -> Iterator[Json]:
    """Without one optional field somewhere."""
    for path, kind in _objects(scenario):
        for name in sorted(set(_at(scenario, path)) - _NEEDED.get(kind, frozenset())):
            smaller = deepcopy(scenario)
            del _at(smaller, path)[name]
            yield smaller


def _smaller_numbers(scenario: Json) -> Iterator[Json]:
    """With one number halved or one less."""
    for path, kind in _objects(scenario):
        for name, value in _at(scenario, path).items():
            if type(value) is not int or value <= (name in _NEEDED.get(kind, ())):
                continue
            for smaller_value in sorted({0 if name == "t" else value // 2, value - 1}):
                smaller = deepcopy(scenario)
                _at(smaller, path)[name] = smaller_value
                yield smaller


def _objects(scenario: Json) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every object of a scenario: its path, and the kind by which its needed fields are known."""
    for name in ("engine", "spec", "kv_connector", "cost"):
        if name in scenario:
            yield (name,), name
    for index in range(len(scenario["engine"].get("groups", ()))):
        yield ("engine", "groups", index), "group"
    for index, request in enumerate(scenario["requests"]):
        yield ("requests", index), "request"
        if "kv" in request:
            yield ("requests", index, "kv"), "kv"


def _at(scenario: Json, path: tuple[Any, ...]) -> Json:
    found: Any = scenario
    for key in path:
        found = found[key]
    inner: Json = found
    return inner
