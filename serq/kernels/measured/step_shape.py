"""What a step looks like to its kernels: the sizes that operator tables are keyed by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, Self

from serq.errors import RunError
from serq.kernels.executor import DecodeTotals
from serq.kernels.step_batch import BatchRow, StepBatch


class StepShape(NamedTuple):
    """One step. A share of exactly one token is a decode for attention, also one that ends a prompt.

    ``tokens`` and ``sequences`` count all shares. ``chunk`` new prefill tokens on ``history`` old ones stand
    for all longer shares (0: there are none). ``decoders`` one-token shares have ``context`` computed tokens
    in sum, between ``smallest`` and ``largest``.
    """

    tokens: int
    sequences: int
    chunk: float
    history: float
    decoders: int
    context: int
    smallest: int
    largest: int

    @classmethod
    def of(cls, batch: StepBatch) -> Self:
        """The shape of a batch. Raises RunError where it holds drafts: no table has verifying steps."""
        return cls.of_rows(batch.rows)

    @classmethod
    def of_rows(cls, rows: Iterable[BatchRow]) -> Self:
        """The shape of a step's rows; see :meth:`of`."""
        tokens = sequences = 0
        prefills: list[tuple[int, int]] = []
        contexts: list[int] = []
        for row in rows:
            if row.drafts:
                raise RunError(
                    "the operator tables hold no step that verifies drafts; price speculation another way",
                    code="unpriced-step",
                )
            tokens += row.query
            sequences += 1
            if row.query == 1:
                contexts.append(row.computed)
            else:
                prefills.append((row.query, row.computed))
        return cls.of_shares(tokens, sequences, prefills, contexts)

    @classmethod
    def of_shares(
        cls, tokens: int, sequences: int, prefills: list[tuple[int, int]], contexts: list[int]
    ) -> Self:
        """The shape of a step with (new, old) tokens per prefill and old tokens per decode."""
        chunk, history = one_prefill(prefills)
        if not contexts:
            return cls(tokens, sequences, chunk, history, 0, 0, 0, 0)
        return cls(
            tokens, sequences, chunk, history, len(contexts), sum(contexts), min(contexts), max(contexts)
        )

    def with_decodes(self, count: int, context: int, smallest: int, largest: int) -> Self:
        """This step, whose tokens and sequences count them already, and decodes known by their totals."""
        if self.decoders:
            smallest, largest = min(smallest, self.smallest), max(largest, self.largest)
        return self._replace(
            decoders=self.decoders + count,
            context=self.context + context,
            smallest=smallest,
            largest=largest,
        )

    @classmethod
    def of_decodes(cls, totals: DecodeTotals) -> Self:
        """The shape of a step of decodes alone."""
        return cls(totals.decoders, totals.decoders, 0, 0, *totals)


def one_prefill(prefills: list[tuple[int, int]]) -> tuple[float, float]:
    """The one prefill (new tokens q, old tokens k) that does the work of several.

    k is the mean history per new token, and q gives the same causal area: q^2/2 + q k = sum of
    q_i (k_i + q_i/2). A kernel that was measured with one prefill is so asked for the same work.
    """
    if not prefills:
        return 0, 0
    if len(prefills) == 1:
        return prefills[0]
    new = sum(chunk for chunk, _ in prefills)
    rectangles = sum(chunk * history for chunk, history in prefills)
    area = rectangles + sum(chunk * chunk for chunk, _ in prefills) / 2
    history = rectangles / new
    return math.sqrt(history * history + 2 * area) - history, history
