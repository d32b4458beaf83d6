"""What `serq capacity` answers, in words."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from serq.results.objectives import ObjectiveRow
from serq.results.tables import Table, figure, member_namer
from serq.results.text import aligned
from serq.results.waiting_reasons import EngineWaiting
from serq.studies.capacity import Capacity, Probe, Search, broken


def capacity_text(result: Capacity) -> str:
    """The answer first, then every seed, then what broke."""
    return "\n".join([_answer(result), *_money(result), "", *_seeds(result), *_reasons(result)])


def _answer(result: Capacity) -> str:
    over = result.plan.over
    if not result.reachable:
        failed = result.nearest()
        lowest = min(probe.load for probe in failed)
        return (
            f"no `{over}` keeps every objective: {len(failed)} of {len(result.searches)} seeds miss one "
            f"down to {figure(lowest)}, the lowest tried"
        )
    load, half_width = result.load
    assert load is not None
    found = f"highest `{over}` that keeps every objective: {figure(load)}"
    seeds = len(result.searches)
    if result.exact:
        words = f"{found} (exact: nothing is drawn, so every seed gives the same and one was run)"
    elif half_width is None:
        words = f"{found} (1 seed)"
    elif len({search.bounds.holds for search in result.searches}) == 1:
        words = f"{found} (the same with each of {seeds} seeds)"
    else:
        words = f"{found} ± {half_width:.2g} ({seeds} seeds, 95 %)"
    return words if result.bounded else f"{words}; not every seed broke within the loads tried"


def _money(result: Capacity) -> Iterator[str]:
    mean, half_width = result.per_million_output_tokens
    if mean is not None:
        width = f" ± {half_width:.2g} (95 %)" if half_width else ""
        yield f"there a million output tokens cost {figure(mean)}{width}"


def _seeds(result: Capacity) -> Iterator[str]:
    served = [_served(search) for search in result.searches]
    known = any(cell != "-" for cell in served)
    rows = tuple(
        (
            str(search.seed),
            _load(search.bounds.holds),
            *((there,) if known else ()),
            _load(search.bounds.breaks),
            str(len(search.probes)),
        )
        for search, there in zip(result.searches, served, strict=True)
    )
    headings = ("seed", "holds at", *(("requests/s there",) if known else ()), "breaks at", "runs")
    yield from aligned(Table(headings, rows))


def _served(search: Search) -> str:
    """Requests a second at the load that holds: the load itself may be a factor, or a number of users."""
    if search.bounds.holds is None:
        return "-"
    per_second = search.at(search.bounds.holds).per_second
    return "-" if per_second is None else figure(per_second)


def _load(load: float | None) -> str:
    return "-" if load is None else figure(load)


def _reasons(result: Capacity) -> Iterator[str]:
    nearest = result.nearest()
    for probe in nearest[:1] or result.breaking()[:1]:
        where = "the lowest load tried" if nearest else "just beyond"
        yield ""
        yield f"{where} ({result.plan.over} {figure(probe.load)}, seed {probe.seed}):"
        for row in broken(probe):
            yield f"  {_missed(row)}"
        for engine in probe.waiting:
            yield f"  {_waited(engine, probe)}"


def _missed(row: ObjectiveRow) -> str:
    within = "" if isnan(row.within) else f", {figure(100 * row.within)} % within"
    return f"{row.objective}: measured {figure(row.measured)}{within}"


def _waited(engine: EngineWaiting, probe: Probe) -> str:
    engine_name = member_namer(probe.waiting)(engine)
    if not engine.waiting:
        return f"{engine_name}: nobody waited; the steps themselves take too long"
    shares = ((reason.value, share) for reason, share in engine.reasons.items() if share)
    parts = ", ".join(f"{name} {100 * share:.3g} %" for name, share in shares)
    return f"{engine_name}: somebody waited in {100 * engine.waiting:.3g} % of its time, for {parts}"
