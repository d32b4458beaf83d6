"""The report as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from serq.results.answers import Answers
from serq.results.groups import RequestGroup
from serq.results.statistics import Summary
from serq.results.tables import Table, notes, report_tables
from serq.results.text import headline
from serq.runtime.records import Records
from serq.source import Diagnostic


def as_html(
    records: Records,
    summaries: Mapping[str, Summary],
    warnings: Sequence[Diagnostic],
    answers: Answers,
    classes: Sequence[RequestGroup],
) -> str:
    """The same tables, notes, warnings and outcomes as the text form."""
    return "<div>" + "".join(_parts(records, summaries, warnings, answers, classes)) + "</div>"


def _parts(
    records: Records,
    summaries: Mapping[str, Summary],
    warnings: Sequence[Diagnostic],
    answers: Answers,
    classes: Sequence[RequestGroup],
) -> Iterator[str]:
    yield f"<p>{escape(headline(records))}</p>"
    for table in report_tables(records, summaries, answers, classes):
        yield table_html(table)
    remarks = [escape(f"note: {note}") for note in notes(summaries, records.pools)]
    remarks += [f"<pre>{escape(warning.render())}</pre>" for warning in warnings]
    remarks += [f"<pre>{escape(remark)}</pre>" for remark in answers.remarks()]
    if records.stopped is not None:
        remarks.append(f"<strong>{escape(f'stopped: {records.stopped}')}</strong>")
    if remarks:
        yield "<ul>" + "".join(f"<li>{remark}</li>" for remark in remarks) + "</ul>"


def table_html(table: Table) -> str:
    """One table; names and words stand left, figures right."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    body = "".join(_row(row, "left" if table.words else "right") for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: tuple[str, ...], side: str) -> str:
    name, *figures = row
    cells = "".join(f"<td style='text-align: {side}'>{escape(figure)}</td>" for figure in figures)
    return f"<tr><th style='text-align: left'>{escape(name)}</th>{cells}</tr>"
