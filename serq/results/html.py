"""The report as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from serq.results.contents import Contents
from serq.results.tables import Table


def as_html(contents: Contents) -> str:
    """The same tables, notes, warnings and outcomes as the text form."""
    return "<div>" + "".join(_parts(contents)) + "</div>"


def _parts(contents: Contents) -> Iterator[str]:
    for line in contents.opening:
        yield f"<div><strong>{line.about}</strong> {escape(line.says)}</div>"
    yield f"<p>{escape(contents.headline)}</p>"
    for table in contents.tables:
        yield table_html(table)
    remarks = [escape(f"note: {note}") for note in contents.notes]
    remarks += [f"<pre>{escape(warning.render())}</pre>" for warning in contents.warnings]
    remarks += [f"<pre>{escape(remark)}</pre>" for remark in contents.outcomes]
    if contents.stopped is not None:
        remarks.append(f"<strong>{escape(f'stopped: {contents.stopped}')}</strong>")
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
