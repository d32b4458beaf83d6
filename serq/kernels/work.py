"""What the operators of one step compute: sums over its rows, from any of the forms in which a step comes."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from typing import NamedTuple

from serq.kernels.executor import BatchTotals, DecodeTotals
from serq.kernels.step_batch import BatchRow


class Part(NamedTuple):
    """The decodes of a step, or its prefills.

    ``pairs`` are (query, key) pairs under a causal mask, ``keys`` tokens whose keys and values are read:
    those computed before and the new ones. ``longest`` is the most keys of a row; NaN: nobody knows.
    """

    rows: float
    tokens: float
    pairs: float
    keys: float
    longest: float

    @classmethod
    def of(cls, rows: Iterable[BatchRow]) -> Part:
        """The sums over some rows; whole numbers, so that no order of adding matters."""
        count = tokens = pairs = keys = longest = 0
        for row in rows:
            own = row.computed + row.query
            count += 1
            tokens += row.query
            pairs += row.query * row.computed + row.query * (row.query + 1) // 2
            keys += own
            longest = max(longest, own)
        return cls(count, tokens, pairs, keys, longest)

    @property
    def uniform(self) -> bool:
        """Whether all rows certainly have the same number of keys."""
        return self.rows * self.longest == self.keys


NOTHING = Part(0, 0, 0, 0, 0)


class Work(NamedTuple):
    """One step. ``tokens`` are those that dense layers compute, padding included."""

    tokens: float
    decodes: Part
    prefills: Part

    @property
    def rows(self) -> float:
        """Requests in the step: as many tokens go through the language-model head."""
        return self.decodes.rows + self.prefills.rows

    @property
    def mixed(self) -> bool:
        """Whether there are decodes and prefills."""
        return bool(self.decodes.tokens) and bool(self.prefills.tokens)

    def totals(self) -> BatchTotals:
        """The step as rules of an executor read it, padding left out."""
        decodes, prefills = self.decodes, self.prefills
        return BatchTotals(
            float(decodes.tokens + prefills.tokens),
            float(prefills.tokens),
            float(self.rows),
            float(decodes.rows),
            float(decodes.keys - decodes.tokens),
            float(prefills.keys - prefills.tokens),
            prefills.pairs - prefills.tokens / 2,
        )

    @classmethod
    def of_decodes(cls, totals: DecodeTotals, tokens: int) -> Work:
        """A step of decodes of one token each."""
        count = totals.decoders
        keys = totals.context + count
        return cls(tokens, Part(count, count, keys, keys, totals.largest + 1), NOTHING)

    @classmethod
    def of_totals(cls, totals: BatchTotals) -> Work:
        """A step of which only totals are known; a decode has one token."""
        decoders = totals.decoders
        keys = totals.context_decode + decoders
        prefills = Part(
            max(totals.scheduled - decoders, 0.0),
            totals.prefilled,
            totals.attention + totals.prefilled / 2,
            totals.context_prefill + totals.prefilled,
            nan,
        )
        return cls(totals.tokens, Part(decoders, decoders, keys, keys, nan), prefills)
