"""Which tokens a request consists of, without the tokens: runs of (source, start, length).

Two sequences are equal exactly where their runs name the same source at the same place. A prompt of
120,000 tokens is a handful of runs; an output is one run that grows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

Source = Hashable
"""Names a stream of tokens: a shared document, one prompt, one output, a Mooncake hash id, a stop token."""

Piece = tuple[Source, int, int]
"""(source, start, length): ``length`` tokens of ``source`` from its ``start``-th on."""


class TokenSequence:
    """A growing sequence of tokens as maximal runs, so that equal sequences have equal runs."""

    __slots__ = ("_runs", "length")

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self._runs: list[Piece] = []
        self.length = 0
        for source, start, length in pieces:
            self.append(source, start, length)

    def append(self, source: Source, start: int, length: int = 1) -> None:
        """Append ``length`` tokens of ``source`` from ``start`` on, to the last run if they follow it."""
        if length <= 0:
            return
        runs = self._runs
        if runs:
            last, begin, held = runs[-1]
            if last == source and begin + held == start:
                runs[-1] = (source, begin, held + length)
                self.length += length
                return
        runs.append((source, start, length))
        self.length += length

    def run(self, index: int) -> Piece:
        """The ``index``-th maximal run."""
        return self._runs[index]

    @property
    def runs(self) -> tuple[Piece, ...]:
        """The maximal runs, in order."""
        return tuple(self._runs)

    def prefix(self, length: int) -> tuple[Piece, ...]:
        """The runs of the first ``length`` tokens."""
        pieces = []
        for source, start, held in self._runs:
            if length <= 0:
                break
            pieces.append((source, start, min(held, length)))
            length -= held
        return tuple(pieces)


class PrefixHasher:
    """Interned chained keys: two prefixes of whole blocks are equal exactly when their keys are (S-072).

    A key costs one dictionary access, whatever the length of the prefix; keys are small integers, so a
    lookup in the cache costs one more. The table holds one entry per distinct prefix seen.
    """

    ROOT = 0

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._keys: dict[tuple[Hashable, ...], int] = {}

    def key(self, parent: int, *block: Hashable) -> int:
        """The key of the prefix ``parent`` and then one block."""
        return self._keys.setdefault((parent, *block), len(self._keys) + 1)

    def keys_of(self, sequence: TokenSequence) -> PrefixKeys:
        """The keys of ``sequence``."""
        return PrefixKeys(self, sequence)


class PrefixKeys:
    """The keys of one request's whole blocks, extended as its tokens come to exist (S-072)."""

    __slots__ = ("_hasher", "_offset", "_run", "_sequence", "block_size", "keys")

    def __init__(self, hasher: PrefixHasher, sequence: TokenSequence) -> None:
        self._hasher = hasher
        self._sequence = sequence
        self.block_size = hasher.block_size
        self._run = 0
        self._offset = 0
        self.keys: list[int] = []
        self.extend()

    def extend(self) -> None:
        """Append the keys of the blocks that have become whole."""
        size = self.block_size
        keys = self.keys
        parent = keys[-1] if keys else PrefixHasher.ROOT
        for _ in range(self._sequence.length // size - len(keys)):
            parent = self._hasher.key(parent, *self._next_block(size))
            keys.append(parent)

    def _next_block(self, size: int) -> tuple[Hashable, ...]:
        """The next ``size`` tokens: (source, start) if one run holds them, else their pieces."""
        pieces: list[Piece] = []
        while size:
            source, start, length = self._sequence.run(self._run)
            if self._offset == length:
                self._run += 1
                self._offset = 0
                continue
            taken = min(size, length - self._offset)
            pieces.append((source, start + self._offset, taken))
            size -= taken
            self._offset += taken
        return pieces[0][:2] if len(pieces) == 1 else (tuple(pieces),)


class OutputScript(NamedTuple):
    """What a model will say, token by token; nothing but ``append`` of a request reads it (causality).

    ``source`` names ordinary output tokens by index. The token at index ``end_at`` is ``end_token`` (an
    end-of-sequence or a stop token); from index ``repeat_at`` on every token is the same one.
    """

    source: Source
    end_at: int | None = None
    end_token: Source = "eos"
    repeat_at: int | None = None

    def token(self, index: int) -> tuple[Source, int]:
        """(source, place) of the output token at ``index``."""
        if self.repeat_at is not None and index >= self.repeat_at:
            return "repeat", 0
        if index == self.end_at:
            return self.end_token, 0
        return self.source, index

    def append_to(self, sequence: TokenSequence, start: int, length: int) -> None:
        """Append the output tokens ``start`` to ``start + length - 1`` to a prompt that quotes them."""
        special = [at for at in (self.end_at, self.repeat_at) if at is not None and at < start + length]
        plain = max(start, min(special, default=start + length))
        sequence.append(self.source, start, plain - start)
        for index in range(plain, start + length):
            sequence.append(*self.token(index))
