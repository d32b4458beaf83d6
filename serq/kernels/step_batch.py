"""The batch of one engine step, as the scheduler hands it to whoever prices or lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class BatchRow(NamedTuple):
    """One request of a step.

    ``query`` tokens are computed in this step (drafts included) on top of ``computed`` tokens whose KV is
    already there; ``prompt`` is the length of its prompt; ``drafts`` of the query tokens are speculative.
    A row is a decode when exactly one known token was uncomputed and some were computed.
    """

    request: str
    query: int
    computed: int
    prompt: int
    drafts: int
    decode: bool


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one step computes: rows in scheduling order, and the totals that cost expressions read.

    ``tokens`` all query tokens; ``prefilled`` those of rows that are not decodes; ``decoders`` decode rows;
    ``context_decode`` and ``context_prefill`` sums of ``computed`` over either kind; ``attention`` the sum
    over prefill rows of ``query * (computed + query / 2)`` (R-B-034).
    """

    rows: tuple[BatchRow, ...]
    tokens: int
    prefilled: int
    decoders: int
    context_decode: int
    context_prefill: int
    attention: float

    @classmethod
    def of(cls, rows: tuple[BatchRow, ...]) -> StepBatch:
        """The batch of ``rows``, totals computed."""
        prefills = [row for row in rows if not row.decode]
        tokens = sum(row.query for row in rows)
        prefilled = sum(row.query for row in prefills)
        context_prefill = sum(row.computed for row in prefills)
        return cls(
            rows=rows,
            tokens=tokens,
            prefilled=prefilled,
            decoders=len(rows) - len(prefills),
            context_decode=sum(row.computed for row in rows) - context_prefill,
            context_prefill=context_prefill,
            attention=sum(row.query * (row.computed + row.query / 2) for row in prefills),
        )
