"""The same requests in two runs, and what changed for them.

A request is the same where session, turn and handle are, and it is the n-th of that handle in its turn:
draws are keyed by session and turn, so both runs have the same clients (common random numbers). In a program
without requests the samples of observations are matched in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isnan, nan
from typing import Final, NamedTuple

from serq.results.groups import By, group_name
from serq.results.metrics import REQUEST_METRICS, served_places
from serq.runtime.records import Records, Series
from serq.studies.measures import LATENCIES

SAMPLE: Final = "value"
"""The one metric of an observation's sample."""


class Key(NamedTuple):
    """What makes a request the same one in both runs."""

    session: int
    turn: float
    handle: str
    number: int
    """Which one of that handle in its turn, from 0."""


class Unit(NamedTuple):
    """One request (or sample): its groups and what it saw. ``size`` is (prompt, output) in tokens."""

    label: float
    stage: str
    size: tuple[int, int]
    values: Mapping[str, float]


class Moved(NamedTuple):
    """One matched request: what it saw in A and in B."""

    seed: int
    key: Key
    size: tuple[int, int]
    a: float
    b: float

    @property
    def difference(self) -> float:
        """B less A."""
        return self.b - self.a


class Group(NamedTuple):
    """The matched requests of one group in one pair of runs: for every metric how many, and mean B - A."""

    name: str
    differences: Mapping[str, tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Matched:
    """What the matched requests of one pair of runs come to.

    ``resized`` of the ``count`` matched ones have another prompt or output length in B; ``only_a`` and
    ``only_b`` were served in one of the runs alone. ``gained`` and ``lost`` are those whose ``metric`` fell
    and rose most, the largest change first.
    """

    count: int
    resized: int
    only_a: int
    only_b: int
    groups: Sequence[Group]
    gained: Sequence[Moved]
    lost: Sequence[Moved]


def units(records: Records, metric: str) -> dict[Key, Unit]:
    """The requests of a run that were served in full since warm-up; the samples if ``metric`` is theirs."""
    if metric == SAMPLE:
        return _samples(records.series.values())
    table = records.requests
    places = served_places(table, records.warmup)
    columns = zip(*(REQUEST_METRICS[metric](table, places) for metric in LATENCIES), strict=True)
    keys = _numbered(zip(table.session, table.turn, table.handle, strict=True))
    return {
        keys[place]: Unit(
            label=table.label[place],
            stage=records.engines[table.engine[place]].name,
            size=(table.prompt_tokens[place], table.generated[place]),
            values=dict(zip(LATENCIES, values, strict=True)),
        )
        for place, values in zip(places, columns, strict=True)
    }


def _samples(series: Iterable[Series]) -> dict[Key, Unit]:
    found: dict[Key, Unit] = {}
    for one in series:
        keys = _numbered(zip(one.sessions, one.turns, [one.name] * len(one.values), strict=True))
        for key, value in zip(keys, one.values, strict=True):
            found[key] = Unit(nan, "", (0, 0), {SAMPLE: value})
    return found


def _numbered(keys: Iterable[tuple[int, float, str]]) -> list[Key]:
    seen: Counter[tuple[int, float, str]] = Counter()
    out = []
    for key in keys:
        out.append(Key(*key, seen[key]))
        seen[key] += 1
    return out


def _group(by: By, key: Key, unit: Unit) -> str:
    values = {
        "class": unit.label,
        "handle": key.handle,
        "stage": unit.stage,
        "session": key.session,
        "turn": key.turn,
    }
    return group_name(by, values[by])


def match(
    a: Mapping[Key, Unit], b: Mapping[Key, Unit], *, by: By, metric: str, seed: int, shown: int
) -> Matched:
    """Match the requests of two runs; group those of A by ``by``, and keep the ``shown`` most changed."""
    common = [key for key in a if key in b]
    groups: dict[str, list[Key]] = {}
    for key in common:
        groups.setdefault(_group(by, key, a[key]), []).append(key)
    pairs = (Moved(seed, key, a[key].size, a[key].values[metric], b[key].values[metric]) for key in common)
    moved = sorted(
        (one for one in pairs if not isnan(one.difference)), key=lambda one: (one.difference, one.key)
    )
    return Matched(
        count=len(common),
        resized=sum(a[key].size != b[key].size for key in common),
        only_a=len(a) - len(common),
        only_b=len(b) - len(common),
        groups=[Group(name, _differences(a, b, groups[name])) for name in sorted(groups)],
        gained=[one for one in moved[:shown] if one.difference < 0],
        lost=[one for one in reversed(moved[-shown:]) if one.difference > 0],
    )


def _differences(
    a: Mapping[Key, Unit], b: Mapping[Key, Unit], keys: Sequence[Key]
) -> dict[str, tuple[int, float]]:
    out = {}
    for metric in a[keys[0]].values:
        changes = [b[key].values[metric] - a[key].values[metric] for key in keys]
        known = [change for change in changes if not isnan(change)]
        out[metric] = (len(known), fsum(known) / len(known) if known else nan)
    return out
