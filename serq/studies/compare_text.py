"""What `serq compare` answers: in words and tables, and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite, nan
from typing import Any, Final

from serq.results.plots.comparison import Change
from serq.results.tables import Table, figure, percentage
from serq.results.text import aligned
from serq.studies.compare import Comparison, Difference, Verdict
from serq.studies.matching import SAMPLE, Moved
from serq.studies.replications import Interval

_SECTIONS: Final = {
    "requests": "all requests",
    "objective": "objective",
    "observation": "observation",
    "stage": "stage",
    "engine": "engine",
    "money": "money",
}


def compare_text(result: Comparison) -> str:
    """The answer first, then every figure of both sides, then which requests drive the differences."""
    differences = result.differences
    lines = [*_heading(result, differences)]
    for section, heading in _SECTIONS.items():
        rows = [one for one in differences if one.name.section == section]
        if rows:
            lines += ["", *aligned(_figure_table(heading, rows, result.exact))]
    for side, name in result.one_sided:
        lines += ["", f"note: only {side} has {name.section} {name.row} {name.column}"]
    lines += ["", *_drivers(result)]
    return "\n".join(lines)


def _heading(result: Comparison, differences: Sequence[Difference]) -> Iterator[str]:
    seeds = len(result.pairs)
    counts = Counter(one.verdict for one in differences)
    words = ", ".join(f"{verdict.value} in {counts[verdict]}" for verdict in Verdict if counts[verdict])
    yield f"B against A, {seeds} seed{'s' if seeds > 1 else ''}, of {len(differences)} figures: {words}"
    for side, name in zip("AB", result.plan.names, strict=True):
        yield f"{side}: {name}"
    if result.exact:
        yield f"all {seeds} seeds give the same on each side: the differences are exact, none is by chance"
    elif seeds < 2:
        yield "one seed says nothing of chance: --reps 2 or more give intervals and verdicts"
    else:
        yield "each verdict is at 95 % by itself: of 20 figures that are alike, one looks different"


def _figure_table(heading: str, rows: Sequence[Difference], exact: bool) -> Table:
    cells = []
    for row in rows:
        a, b = row.means
        change, half_width = row.interval
        cells.append(
            (
                f"{row.name.row} {row.name.column}".rstrip(),
                figure(a),
                figure(b),
                _optional(change),
                "exact" if exact else _optional(half_width),
                relative(row),
                row.verdict.value,
            )
        )
    return Table((heading, "A", "B", "B - A", "± 95 %", "of A", "B is"), tuple(cells))


def relative(row: Difference) -> str:
    """The difference as a share of A, in percent with its sign."""
    a, b = row.means
    return f"{100 * (b - a) / abs(a):+.1f} %" if isfinite(a) and isfinite(b) and a else "-"


def _optional(value: float | None) -> str:
    return "-" if value is None else figure(value)


def _drivers(result: Comparison) -> Iterator[str]:
    matched = [pair.matched for pair in result.pairs]
    what = "samples" if result.metric == SAMPLE else "requests"
    common, resized, only_a, only_b = (
        sum(getattr(one, name) for one in matched) for name in ("count", "resized", "only_a", "only_b")
    )
    yield (
        f"{common} {what} are in both runs (same seed, session, turn and handle); "
        f"{only_a} ended in A only, {only_b} in B only"
    )
    if resized:
        yield f"note: {resized} of them have another prompt or output length in B"
    if not common:
        return
    yield ""
    yield from aligned(_group_table(result))
    unit = result.metric if result.metric != SAMPLE else "the sample"
    for moved, words in ((result.lost, "rose"), (result.gained, "fell")):
        if moved:
            yield ""
            yield from aligned(_moved_table(f"{unit} {words} most", moved, result.metric == SAMPLE))


def _group_table(result: Comparison) -> Table:
    """One row a group. Samples of different observations do not add up, so only requests have shares."""
    groups, of_requests = result.groups, result.metric != SAMPLE
    metrics = list(groups[0].changes)
    whole = sum(abs(group.total[result.metric]) for group in groups)
    rows = [
        (
            group.name,
            str(group.count),
            *(_with_width(group.changes[metric], result.exact) for metric in metrics),
            *((percentage(abs(group.total[result.metric]), whole),) if of_requests else ()),
        )
        for group in groups
    ]
    changes = [f"{metric} B - A" for metric in metrics]
    if of_requests:
        return Table(
            ("driven by", "requests", *changes, f"share of all {result.metric} changes"), tuple(rows)
        )
    return Table(("driven by", "samples", *changes), tuple(rows))


def _with_width(change: Interval, exact: bool) -> str:
    mean, half_width = change
    if mean is None:
        return "-"
    return figure(mean) if half_width is None or exact else f"{figure(mean)} ± {half_width:.2g}"


def _moved_table(heading: str, moved: Sequence[Moved], samples: bool) -> Table:
    sizes = () if samples else ("prompt", "output")
    rows = [
        (
            one.key.handle,
            *(figure(number) for number in (one.seed, one.key.session, one.key.turn)),
            *(() if samples else map(str, one.size)),
            *(figure(value) for value in (one.a, one.b, one.difference)),
        )
        for one in moved
    ]
    return Table((heading, "seed", "session", "turn", *sizes, "A", "B", "B - A"), tuple(rows))


def changes(result: Comparison) -> list[Change]:
    """The figures as a picture shows them."""
    out = []
    for one in result.differences:
        difference, half_width = (nan if value is None else value for value in one.interval)
        half_width = nan if result.exact else half_width
        name = f"{one.name.row} {one.name.column}"
        out.append(Change(name, one.means[0], difference, half_width, one.verdict.value))
    return out


def compare_data(result: Comparison) -> dict[str, Any]:
    """The comparison as plain data: null for what is not determined."""
    a, b = result.plan.names
    matched = [pair.matched for pair in result.pairs]
    return {
        "a": a,
        "b": b,
        "seeds": [pair.seed for pair in result.pairs],
        "exact": result.exact,
        "figures": [_figure_data(one, result.exact) for one in result.differences],
        "one_sided": [{"side": side, **name._asdict()} for side, name in result.one_sided],
        "matched": {
            name: sum(getattr(one, name) for one in matched)
            for name in ("count", "resized", "only_a", "only_b")
        },
        "by": result.by,
        "groups": [
            {
                "name": group.name,
                "count": group.count,
                "changes": {
                    metric: {
                        "mean": change.mean,
                        "ci95": _width(change, result.exact),
                        "total": group.total[metric],
                    }
                    for metric, change in group.changes.items()
                },
            }
            for group in result.groups
        ],
        "metric": result.metric,
        "gained": [_moved_data(one) for one in result.gained],
        "lost": [_moved_data(one) for one in result.lost],
    }


def _width(change: Interval, exact: bool) -> float | None:
    return None if exact else change.half_width


def _figure_data(one: Difference, exact: bool) -> dict[str, Any]:
    a, b = one.means
    return {
        **one.name._asdict(),
        "better": one.better or None,
        "a": _finite(a),
        "b": _finite(b),
        "difference": one.interval.mean,
        "ci95": _width(one.interval, exact),
        "verdict": one.verdict.value,
        "values_a": [_finite(value) for value in one.a],
        "values_b": [_finite(value) for value in one.b],
    }


def _moved_data(one: Moved) -> dict[str, Any]:
    prompt, output = one.size
    return {
        "seed": one.seed,
        **one.key._asdict(),
        "prompt_tokens": prompt,
        "generated": output,
        "a": one.a,
        "b": one.b,
        "difference": one.difference,
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
