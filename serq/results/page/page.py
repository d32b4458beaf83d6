"""The page, put together section by section."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape

from serq.results.definitions import DEFINITIONS
from serq.results.drawing import as_svg, diagram
from serq.results.explanation.thrash import thrashing
from serq.results.groups import By
from serq.results.modelled import matched
from serq.results.page.answer import Verdict, bottleneck, headlines, verdicts
from serq.results.page.figures import CAPTIONS, figures
from serq.results.page.style import CSS
from serq.results.report import Report
from serq.results.tables import Table, group_table, option_table, price_table, setting_table
from serq.results.text import headline
from serq.runtime.records import Records

_SECTIONS = (
    ("figures", "Figures"),
    ("deployment", "Deployment"),
    ("tables", "Tables"),
    ("costs", "What steps cost"),
    ("options", "Options as resolved"),
    ("metrics", "What the figures mean"),
    ("remarks", "Warnings and notes"),
    ("program", "Program"),
)


def as_page(report: Report, title: str, by: Sequence[By] = ()) -> str:
    """The run as one HTML page: no script, no file beside it, light and dark, the same bytes each time.

    ``by`` adds what requests of each class, engine, … saw.
    """
    return "".join(_page(report, title, by))


def _page(report: Report, title: str, by: Sequence[By]) -> Iterator[str]:
    records = report.whole_records()
    sections = {
        "figures": "".join(_figures(records, title)),
        "deployment": "".join(_deployment(report)),
        "tables": "".join(_tables(report, records, by)),
        "costs": "".join(_costs(records)),
        "options": _table(option_table(records.engines)),
        "metrics": _table(_metrics()),
        "remarks": "".join(_remarks(report)),
        "program": "".join(_program(report)),
    }
    yield "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
    yield "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
    yield f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
    yield f"<h1>{escape(title)}</h1>\n<p class='faint'>{escape(headline(records))}</p>\n"
    shown = [(name, heading) for name, heading in _SECTIONS if sections[name]]
    yield "<nav>" + " ".join(f"<a href='#{name}'>{heading}</a>" for name, heading in shown) + "</nav>\n"
    yield from _opening(report)
    yield from _answer(report, records)
    for name, heading in shown:
        yield f"<h2 id='{name}'>{heading}</h2>\n{sections[name]}\n"
    yield "</body>\n</html>\n"


# --- the answer ---------------------------------------------------------------------------------------------


def _opening(report: Report) -> Iterator[str]:
    yield "<dl class='opening'>"
    for line in report.contents.opening:
        yield f"<dt>{line.about}</dt><dd>{_code(line.says)}</dd>"
    yield "</dl>\n"


def _answer(report: Report, records: Records) -> Iterator[str]:
    if report.stopped is not None:
        yield f"<p class='stopped'>The run was stopped: {escape(report.stopped)}</p>\n"
    asked = verdicts(report.answers)
    if asked:
        yield "<ul class='verdicts'>" + "".join(map(_verdict, asked)) + "</ul>\n"
    cards = list(headlines(records, report.engine_figures, report.answers))
    if cards:
        yield "<div class='cards'>"
        for card in cards:
            yield f"<div class='card'><span>{escape(card.name)}</span><b>{escape(card.value)}</b>"
            yield f"<span>{escape(card.unit)}</span></div>"
        yield "</div>\n"
    for sentence in (*bottleneck(records), *thrashing(records)):
        yield f"<p>{_code(sentence)}.</p>\n"
    if report.warnings:
        count = len(report.warnings)
        yield f"<p><a href='#remarks'>{count} warning{'s' if count > 1 else ''}</a> below.</p>\n"


def _verdict(row: Verdict) -> str:
    kind, word = {True: ("good", "✓ kept"), False: ("bad", "✗ missed"), None: ("faint", "– open")}[row.good]
    return (
        f"<li><span class='{kind}'>{word}</span><code>{escape(row.asked)}</code>"
        f"<span class='measured'>{escape(row.measured)}</span></li>"
    )


def _code(sentence: str) -> str:
    """A sentence whose names stand in back quotes."""
    parts = escape(sentence).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


# --- sections -----------------------------------------------------------------------------------------------


def _figures(records: Records, title: str) -> Iterator[str]:
    for name, svg in figures(records, title):
        yield f"<figure><div class='wide'>{svg}</div><figcaption>{CAPTIONS[name]}</figcaption></figure>\n"


def _deployment(report: Report) -> Iterator[str]:
    if report.program is None:
        return
    drawn = as_svg(diagram(report.program))
    data = base64.b64encode(drawn.encode()).decode()
    yield "<div class='wide drawing'><img alt='Stages in the order of visits, their pools, what moves' "
    yield f"src='data:image/svg+xml;base64,{data}'></div>\n"
    if report.records.engines:
        yield f"<p>Engines decide, step for step, as {_code(matched(report.program))}.</p>\n"
        if report.clock_reason is not None:
            yield f"<p>The run was on the clock, which only takes longer: {_code(report.clock_reason)}.</p>\n"


def _tables(report: Report, records: Records, by: Sequence[By]) -> Iterator[str]:
    elsewhere = {price_table(records.prices), setting_table(records.prices), option_table(records.engines)}
    for table in report.contents.tables:
        if table not in elsewhere:
            yield _table(table)
    for one in by:
        yield _table(group_table(report.groups(one)))


def _costs(records: Records) -> Iterator[str]:
    prices, settings = price_table(records.prices), setting_table(records.prices)
    if prices.rows:
        yield "<p>Every operator's seconds, and the evidence that their prices rest on.</p>\n"
        yield _table(prices) + _table(settings)
    priced = {row.stage for row in records.prices}
    others = [engine.name for engine in records.engines if engine.name not in priced]
    for name in dict.fromkeys(others):
        yield f"<p>The steps of <code>{escape(name)}</code> cost what an expression of the program says.</p>"


def _metrics() -> Table:
    rows = tuple((d.name, d.formula, d.unit or "share", d.meaning) for d in DEFINITIONS)
    return Table(("metric", "formula", "unit", "meaning"), rows, words=True)


def _remarks(report: Report) -> Iterator[str]:
    contents = report.contents
    remarks: Sequence[str] = [
        *(f"note: {note}" for note in contents.notes),
        *(warning.render() for warning in contents.warnings),
        *contents.outcomes,
    ]
    yield from (f"<pre>{escape(remark)}</pre>" for remark in remarks)


def _program(report: Report) -> Iterator[str]:
    if report.program_text is not None:
        yield f"<pre>{escape(report.program_text)}</pre>"


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    body = "".join(
        f"<tr><th>{escape(name)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for name, *cells in table.rows
    )
    kind = " class='words'" if table.words else ""
    return (
        f"<div class='wide'><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )
