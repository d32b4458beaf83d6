"""The shape of a step as text: the key under which prices of whole steps are measured, kept and found again.

Rows in one line, equal ones together, such as ``d1@8192*23 p3968@8192``: 23 decodes of one token over 8192
keys (the new token counted), and a prefill of 3968 tokens over as many keys. ``d1+2@900``: a decode that
verifies two drafts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from serq.kernels.step_batch import BatchRow, StepBatch

_ROW = re.compile(r"(?P<kind>[dp])(?P<known>\d+)(?:\+(?P<drafts>\d+))?@(?P<keys>\d+)(?:\*(?P<count>\d+))?")


def canonical_rows(rows: Iterable[BatchRow], context_step: int) -> tuple[BatchRow, ...]:
    """The rows that stand for all steps of the same shape: decodes first, the longest first.

    The keys of a row that has computed tokens are rounded up to a multiple of ``context_step``; what a row
    computes, and whether it is fresh, stays. Raises ValueError for a step below 1.
    """
    if context_step < 1:
        raise ValueError(f"contexts cannot be rounded to {context_step} tokens")
    rounded = (_rounded(row, context_step) for row in rows)
    order = sorted(rounded, key=lambda row: (not row.decode, -row.query, -row.computed, row.drafts))
    return tuple(row._replace(request=str(place)) for place, row in enumerate(order))


def _rounded(row: BatchRow, context_step: int) -> BatchRow:
    computed = row.computed
    if computed:
        computed = -(-(computed + row.query) // context_step) * context_step - row.query
    prompt = computed if row.decode else computed + row.query
    return BatchRow("", row.query, computed, prompt, row.drafts, row.decode)


def shape_text(rows: tuple[BatchRow, ...]) -> str:
    """Canonical rows as text."""
    words = (_word(row) for row in rows)
    runs = ((word, sum(1 for _ in same)) for word, same in groupby(words))
    return " ".join(word if count == 1 else f"{word}*{count}" for word, count in runs)


def _word(row: BatchRow) -> str:
    drafts = f"+{row.drafts}" if row.drafts else ""
    return f"{'d' if row.decode else 'p'}{row.query - row.drafts}{drafts}@{row.computed + row.query}"


def parse_shape(text: str) -> StepBatch:
    """The step of a text. Raises ValueError for one that :func:`shape_text` does not write."""
    rows: list[BatchRow] = []
    for word in text.split():
        match = _ROW.fullmatch(word)
        if match is None:
            raise ValueError(f"`{word}` is no row of a step")
        drafts = int(match["drafts"] or 0)
        query = int(match["known"]) + drafts
        computed = int(match["keys"]) - query
        decode = match["kind"] == "d"
        if query < 1 or computed < 0:
            raise ValueError(f"`{word}` has fewer keys than tokens, or no tokens")
        prompt = computed if decode else computed + query
        for _ in range(int(match["count"] or 1)):
            rows.append(BatchRow(str(len(rows)), query, computed, prompt, drafts, decode))
    if not rows:
        raise ValueError("a step has at least one row")
    return StepBatch.of(tuple(rows))
