"""Why one request took as long as it did: its time by part, who stood before it, who took its blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan

from serq.errors import UsageError
from serq.results.explanation.split import Part, Preemption, Splitter, Stay
from serq.results.metrics import REQUEST_METRICS, of_one
from serq.results.statistics import quantile
from serq.results.tables import member_namer
from serq.runtime.records import Records
from serq.runtime.request_records import FINISH_REASONS, RequestTable
from serq.runtime.serving.thrash import OFTEN


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of a part, and their share of the whole."""

    part: Part
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Other:
    """Another request, as far as it matters to the one that is explained."""

    request: int
    lane: str
    prompt_tokens: int
    sent: float
    label: float


@dataclass(frozen=True, slots=True)
class SharedSteps:
    """The steps between the first and the last token: how many, how long on average, with whose prefills."""

    steps: int
    alone: int
    mean_alone: float
    mean_shared: float
    prefills: Sequence[Other]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the request at ``request`` took from ``sent`` to ``end``.

    ``ran_before`` ran when the engine took it in; ``ahead`` were sent earlier and ``passed_by`` later, and
    all of these were admitted while it waited.
    """

    request: int
    session: int
    handle: str
    engine: str
    label: float
    prompt_tokens: int
    cached_tokens: int
    generated: int
    outcome: str
    sent: float
    end: float
    metrics: dict[str, float]
    spent: Sequence[Spent]
    stays: Sequence[Stay]
    ran_before: Sequence[Other]
    ahead: Sequence[Other]
    passed_by: Sequence[Other]
    preemptions: Sequence[Preemption]
    steps: SharedSteps
    findings: Sequence[str]


def place_of(which: str, records: Records, metric: str = "e2e") -> int:
    """The place of a request: its number, `SESSION:HANDLE` (its first), `worst`, or `pN` such as `p99`.

    The last two are about ``metric``. Raises UsageError where there is no such request.
    """
    table = records.requests
    if which.isdecimal():
        if int(which) >= len(table):
            raise UsageError(f"no request {which}: the run sent {len(table)}, numbered from 0")
        return int(which)
    named = re.fullmatch(r"(\d+):(\w+)", which)
    if named:
        session, handle = int(named[1]), named[2]
        for place in range(len(table)):
            if (table.session[place], table.handle[place]) == (session, handle):
                return place
        sent = dict.fromkeys(table.handle[i] for i in range(len(table)) if table.session[i] == session)
        hint = f"; it sent {', '.join(f'`{name}`' for name in sent)}" if sent else " (it sent none)"
        raise UsageError(f"session {session} sent no request `{handle}`{hint}")
    ranked = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", which)
    if which != "worst" and not ranked:
        raise UsageError(f"`{which}` is no request: write its number, SESSION:HANDLE, worst, or p99")
    times = enumerate(REQUEST_METRICS[metric](table, range(len(table))))
    known = {place: time for place, time in times if not isnan(time)}
    if not known:
        raise UsageError(f"no request has a {metric}")
    thousandths = 1000 * 100 if ranked is None else round(1000 * float(ranked[1]))
    wanted = quantile(sorted(known.values()), (max(1, thousandths), 100_000))
    return next(place for place, time in known.items() if time == wanted)


def explain_request(place: int, records: Records, splitter: Splitter | None = None) -> Explanation:
    """Explain the request at ``place``. Needs records with all their rows."""
    splitter = splitter or Splitter(records)
    table = records.requests
    sent, end = table.sent[place], splitter.end_of(place)
    split = splitter.split(place, sent, end)
    whole = sum(split.values())
    seconds = splitter.ticks.seconds
    engine = records.engines[table.engine[place]]
    others = _Others(records, splitter, place)
    preemptions = splitter.preemptions.get(place, [])
    return Explanation(
        request=place,
        session=table.session[place],
        handle=table.handle[place],
        engine=member_namer(records.engines)(engine),
        label=table.label[place],
        prompt_tokens=table.prompt_tokens[place],
        cached_tokens=table.cached_tokens[place],
        generated=table.generated[place],
        outcome=FINISH_REASONS[table.finish_reason[place]],
        sent=sent,
        end=end,
        metrics={name: of_one(metric, table, place) for name, metric in REQUEST_METRICS.items()},
        spent=[Spent(part, seconds(ticks), ticks / whole) for part, ticks in split.items()],
        stays=splitter.stays.get(place, []),
        ran_before=others.that_ran(table.queued[place]),
        ahead=others.admitted_meanwhile(lambda other: table.sent[other] <= sent),
        passed_by=others.admitted_meanwhile(lambda other: table.sent[other] > sent),
        preemptions=preemptions,
        steps=_shared_steps(place, records, others),
        findings=list(_findings(split, whole, preemptions)),
    )


class _Others:
    """The other requests at the engine of one."""

    def __init__(self, records: Records, splitter: Splitter, place: int) -> None:
        self._table = records.requests
        self._splitter = splitter
        self._place = place

    def _places(self) -> Iterator[int]:
        engine = self._table.engine[self._place]
        return (p for p, e in enumerate(self._table.engine) if e == engine and p != self._place)

    def _other(self, place: int) -> Other:
        table, stays = self._table, self._splitter.stays.get(place, ())
        lane = stays[0].lane if stays else ""
        return Other(place, lane, table.prompt_tokens[place], table.sent[place], table.label[place])

    def that_ran(self, time: float) -> list[Other]:
        """Those that ran at ``time``: admitted before, not over, and not in a lane."""
        table, found = self._table, []
        for place in self._places():
            if table.scheduled[place] < time < self._splitter.end_of(place) and not any(
                stay.entered <= time < stay.left for stay in self._splitter.stays.get(place, ())
            ):
                found.append(self._other(place))
        return found

    def admitted_meanwhile(self, matters: Callable[[int], bool]) -> list[Other]:
        """Those first admitted between its being taken in and its own first admission."""
        table, mine = self._table, self._place
        queued, scheduled = table.queued[mine], table.scheduled[mine]
        until = self._splitter.end_of(mine) if isnan(scheduled) else scheduled
        return [
            self._other(place)
            for place in self._places()
            if queued <= table.scheduled[place] < until and matters(place)
        ]

    def prefilling(self, begin: float, end: float) -> list[Other]:
        """Those whose prompts were computed between two instants, the longest first."""
        table = self._table
        found = [
            self._other(place)
            for place in self._places()
            if table.scheduled[place] < end and not table.first_token[place] <= begin
        ]
        return sorted(found, key=lambda other: -other.prompt_tokens)


def _shared_steps(place: int, records: Records, others: _Others) -> SharedSteps:
    requests: RequestTable = records.requests
    table = records.engines[requests.engine[place]].table
    first, last = requests.first_step[place], requests.last_step[place]
    steps = range(first + 1, last + 1) if first >= 0 else range(0)
    lengths: dict[bool, list[float]] = {True: [], False: []}
    for step in steps:
        lengths[table.prefill_tokens[step] > 0].append(table.end[step] - table.start[step])
    prefills = others.prefilling(requests.first_token[place], requests.last_token[place])
    return SharedSteps(
        len(steps),
        len(lengths[False]),
        _mean(lengths[False]),
        _mean(lengths[True]),
        prefills if lengths[True] else [],
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else nan


def _findings(split: Mapping[Part, int], whole: int, preemptions: Sequence[Preemption]) -> Iterator[str]:
    """What deserves a name."""
    if len(preemptions) >= OFTEN:
        lost = sum(preemption.lost_tokens for preemption in preemptions)
        yield (
            f"thrash: it was preempted {len(preemptions)} times and lost {lost} computed tokens; "
            "the KV cache holds fewer running requests than `max_num_seqs` lets in"
        )
    if whole and split.get(Part.INTERFERENCE, 0) * 2 > whole:
        yield "interference: most of its time passed in steps that also computed the prompts of others"
