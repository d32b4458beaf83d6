"""Explanations in words, for a terminal, and as plain data, for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, isnan
from typing import Any, Final

from serq.ir.printer import number
from serq.results.explanation.request import Explanation, Other
from serq.results.explanation.split import Preemption
from serq.results.explanation.tail import TailExplanation
from serq.results.tables import Table, figure, percentage
from serq.results.text import aligned

_NAMED: Final = 5


def request_text(found: Explanation) -> str:
    """Why a request took so long."""
    return "\n".join(_request_lines(found))


def _request_lines(found: Explanation) -> Iterator[str]:
    label = "" if isnan(found.label) else f", class {number(found.label)}"
    yield (
        f"request {found.request} (session {found.session}, `{found.handle}`{label}) at {found.engine}: "
        f"{found.prompt_tokens} prompt tokens, {found.cached_tokens} of them cached, "
        f"{found.generated} generated"
    )
    known = [f"{name} {figure(value)} s" for name, value in found.metrics.items() if not isnan(value)]
    yield f"sent at {figure(found.sent)} s, {_outcome(found)}: {', '.join(known) or 'nothing came back'}"
    yield ""
    total = found.end - found.sent
    rows = [(spent.part.value, figure(spent.seconds), f"{100 * spent.share:.1f} %") for spent in found.spent]
    yield from aligned(
        Table(("where its time went", "seconds", "share"), (*rows, ("all of it", figure(total), "")))
    )
    yield ""
    yield from _queue_lines(found)
    yield from _preemption_lines(found.preemptions)
    yield from _step_lines(found)
    yield from (f"finding: {finding}" for finding in found.findings)


def _outcome(found: Explanation) -> str:
    if not found.outcome:
        return f"not over at {figure(found.end)} s, when the run was"
    return f"over at {figure(found.end)} s ({found.outcome})"


def _queue_lines(found: Explanation) -> Iterator[str]:
    for stay in found.stays:
        if stay.left > stay.entered:
            end = "then it was admitted" if stay.admitted else "then it left unadmitted"
            end = "then its KV was there" if stay.lane == "loading" else end
            yield f"lane {stay.lane}: from {figure(stay.entered)} to {figure(stay.left)} s, {end}"
    if found.ran_before:
        yield f"when the engine took it in, {_several(found.ran_before, 'ran', 'ran')}"
    if found.ahead:
        yield f"sent before it and admitted while it waited: {_several(found.ahead, 'request', 'requests')}"
    if found.passed_by:
        yield f"sent after it and admitted before it: {_several(found.passed_by, 'request', 'requests')}"


def _several(others: Sequence[Other], one: str, more: str) -> str:
    named = ", ".join(
        f"{other.request} ({other.prompt_tokens} prompt tokens, lane {other.lane})"
        for other in others[:_NAMED]
    )
    rest = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"{len(others)} {one if len(others) == 1 else more}: {named}{rest}"


def _preemption_lines(preemptions: Iterable[Preemption]) -> Iterator[str]:
    for row in preemptions:
        by = "itself" if row.needed_by == row.request else f"request {row.needed_by}"
        why = f"because {by} needed blocks" if row.needed_by >= 0 else "at nobody's need"
        back = (
            "it was not admitted again"
            if isnan(row.resumed)
            else f"admitted again at {figure(row.resumed)} s"
        )
        token = "" if isnan(row.recovered) else f", next token at {figure(row.recovered)} s"
        yield (
            f"preempted at {figure(row.time)} s in step {row.step} {why}: "
            f"lost {row.lost_tokens} computed tokens, {back}{token}"
        )


def _step_lines(found: Explanation) -> Iterator[str]:
    steps = found.steps
    if not steps.steps:
        return
    shared = steps.steps - steps.alone
    line = f"{steps.steps} steps between its first and its last token, {shared} of them with prefills"
    if shared and steps.alone:
        line += f": {figure(steps.mean_shared)} s on average against {figure(steps.mean_alone)} s without"
    yield line
    if steps.prefills:
        yield f"prompts computed meanwhile: {_several(steps.prefills, 'request', 'requests')}"


def tail_text(found: TailExplanation) -> str:
    """What a tail has in common."""
    return "\n".join(_tail_lines(found))


def _tail_lines(found: TailExplanation) -> Iterator[str]:
    slowest = ", ".join(map(str, found.requests[:_NAMED]))
    yield (
        f"{found.metric} p{100 * found.fraction:g} is {figure(found.limit)} s: {len(found.requests)} of "
        f"{found.count} requests took as long or longer; the slowest are {slowest}"
    )
    yield ""
    whole = sum(share.tail for share in found.parts), sum(share.everybody for share in found.parts)
    parts = tuple(
        (
            share.part.value,
            figure(share.tail),
            percentage(share.tail, whole[0]),
            figure(share.everybody),
            percentage(share.everybody, whole[1]),
        )
        for share in found.parts
    )
    yield from aligned(Table(("where the time goes", "tail, mean s", "share", "all, mean s", "share"), parts))
    if found.traits:
        yield ""
        traits = tuple(
            (trait.what, f"{100 * trait.tail:.1f} %", f"{100 * trait.everybody:.1f} %", f"{trait.lift:.3g}")
            for trait in found.traits
        )
        yield from aligned(Table(("what the tail has more often", "tail", "all", "times"), traits))


def plain(value: Any) -> Any:
    """An explanation as plain data: null for what is not finite, parts by their names."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if hasattr(value, "name") and hasattr(value, "value"):
        return value.name.lower()
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value
