"""What the slowest requests of a run have in common: where they differ from all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from typing import Final, NamedTuple

from serq.errors import UsageError
from serq.ir.printer import number
from serq.results.explanation.split import Part, Splitter
from serq.results.metrics import REQUEST_METRICS
from serq.results.statistics import quantile
from serq.results.tables import figure, member_namer
from serq.runtime.records import Records

TAIL_METRICS: Final = ("ttft", "tpot", "e2e")
_WINDOWS: Final = 10


class Trait(NamedTuple):
    """Something that requests have: its share of the tail, and of all."""

    what: str
    tail: float
    everybody: float

    @property
    def lift(self) -> float:
        """How much more often the tail has it."""
        return self.tail / self.everybody


class PartShare(NamedTuple):
    """Mean seconds that a request spent in a part, in the tail and of all."""

    part: Part
    tail: float
    everybody: float


@dataclass(frozen=True, slots=True)
class TailExplanation:
    """The requests with a ``metric`` of at least ``limit``, the slowest first, and what they have in common.

    ``traits`` are those that the tail has more often than all requests, the most telling first; ``parts``
    divide the time that the metric is about.
    """

    metric: str
    fraction: float
    limit: float
    count: int
    requests: Sequence[int]
    traits: Sequence[Trait]
    parts: Sequence[PartShare]


def explain_tail(metric: str, fraction: float, records: Records) -> TailExplanation:
    """The requests beyond the quantile ``fraction`` of ``metric``: of those that ended since warm-up.

    Needs records with all their rows. Raises UsageError where there is no such request.
    """
    table = records.requests
    ended = [place for place in range(len(table)) if table.finish[place] >= records.warmup]
    times = zip(ended, REQUEST_METRICS[metric](table, ended), strict=True)
    known = {place: time for place, time in times if not isnan(time)}
    if not known:
        raise UsageError(f"no request that ended since warm-up has a {metric}")
    share = Fraction(str(fraction))
    limit = quantile(sorted(known.values()), (share.numerator, share.denominator))
    tail = sorted((p for p, time in known.items() if time >= limit), key=lambda p: (-known[p], p))
    splitter = Splitter(records)
    traits = _traits(tail, list(known), records, splitter)
    parts = _parts(metric, tail, list(known), records, splitter)
    return TailExplanation(metric, fraction, limit, len(known), tail, traits, parts)


def _traits(
    tail: Sequence[int], everybody: Sequence[int], records: Records, splitter: Splitter
) -> list[Trait]:
    lengths = sorted(records.requests.prompt_tokens[place] for place in everybody)
    bands = sorted({quantile(lengths, (quarter, 4)) for quarter in (1, 2, 3, 4)})
    counts = [Counter[str](), Counter[str]()]
    for count, places in zip(counts, (tail, everybody), strict=True):
        for place in places:
            count.update(_has(place, records, splitter, bands))
    found = [
        Trait(what, times / len(tail), counts[1][what] / len(everybody)) for what, times in counts[0].items()
    ]
    telling = [trait for trait in found if trait.tail > trait.everybody and trait.tail >= 0.25]
    return sorted(telling, key=lambda trait: (trait.everybody - trait.tail, trait.what))


def _has(place: int, records: Records, splitter: Splitter, bands: Sequence[float]) -> Iterator[str]:
    """What the request at ``place`` has, in words."""
    table = records.requests
    if not isnan(table.label[place]):
        yield f"class {number(table.label[place])}"
    if len(records.engines) > 1:
        yield f"engine {member_namer(records.engines)(records.engines[table.engine[place]])}"
    stays = splitter.stays.get(place, ())
    if stays:
        yield f"lane {stays[0].lane}"
    length = table.prompt_tokens[place]
    band = next(place for place, most in enumerate(bands) if length <= most)
    low = 0 if band == 0 else int(bands[band - 1]) + 1
    yield f"prompt of {low} to {int(bands[band])} tokens"
    width = records.end / _WINDOWS
    window = min(_WINDOWS - 1, int(table.sent[place] / width)) if width else 0
    yield f"sent between {figure(window * width)} and {figure((window + 1) * width)} s"
    if table.preemptions[place]:
        yield "preempted"
    if not table.cached_tokens[place]:
        yield "nothing of its prompt cached"


def _parts(
    metric: str, tail: Sequence[int], everybody: Sequence[int], records: Records, splitter: Splitter
) -> list[PartShare]:
    means = [_mean_seconds(metric, places, records, splitter) for places in (tail, everybody)]
    shares = [PartShare(part, means[0].get(part, 0.0), means[1].get(part, 0.0)) for part in Part]
    return [share for share in shares if share.tail or share.everybody]


def _mean_seconds(
    metric: str, places: Sequence[int], records: Records, splitter: Splitter
) -> Mapping[Part, float]:
    table, sums = records.requests, Counter[Part]()
    for place in places:
        begin = table.first_token[place] if metric == "tpot" else table.sent[place]
        end = table.first_token[place] if metric == "ttft" else table.last_token[place]
        sums.update(splitter.split(place, begin, end))
    return {part: splitter.ticks.seconds(ticks) / len(places) for part, ticks in sums.items()}
