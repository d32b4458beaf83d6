"""The report as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from serq.results.contents import Contents
from serq.results.tables import Table, figure
from serq.runtime.records import Records


def headline(records: Records) -> str:
    """The run in one line; times are in the program's unit (seconds by convention)."""
    state = "run" if records.stopped is None else "stopped run"
    warmup = f", warm-up {figure(records.warmup)} s" if records.warmup else ""
    return (
        f"{state} to {figure(records.end)} s of {figure(records.horizon)} s{warmup}, seed {records.seed}: "
        f"{records.arrivals} arrivals, {records.ended} ended, {figure(records.mean_live)} live on average, "
        f"{records.events} events"
    )


def as_text(contents: Contents) -> str:
    """The whole report: first lines, headline, tables, notes, warnings, outcomes of expectations."""
    return "\n".join(_lines(contents))


def tables_text(tables: Iterable[Table]) -> str:
    """Tables one under another."""
    return "\n\n".join("\n".join(aligned(table)) for table in tables)


def _lines(contents: Contents) -> Iterator[str]:
    width = max(len(line.about) for line in contents.opening)
    for line in contents.opening:
        yield f"{line.about.ljust(width)}  {line.says}"
    yield ""
    yield contents.headline
    for table in contents.tables:
        yield ""
        yield from aligned(table)
    remarks = [f"note: {note}" for note in contents.notes]
    remarks += [warning.render() for warning in contents.warnings]
    remarks += contents.outcomes
    if contents.stopped is not None:
        remarks.append(f"stopped: {contents.stopped}")
    if remarks:
        yield ""
        yield from remarks


def aligned(table: Table) -> Iterator[str]:
    """The lines of a table: names and words to the left, figures to the right of their columns."""
    lines = (table.headings, *table.rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *figures in lines:
        place = str.ljust if table.words else str.rjust
        cells = (place(cell, width) for cell, width in zip(figures, widths[1:], strict=True))
        yield "  ".join((name.ljust(widths[0]), *cells)).rstrip()
