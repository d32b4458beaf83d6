"""Prefixes of whole blocks as a few runs: what :mod:`serq.runtime.vllm.tokens` keys block by block (S-072).

A run is a place in the tree of all prefixes from which on every block continues one source. Its blocks are
numbered from 0, and (run, number) names a prefix exactly where the chained key of that block would.
"""

from __future__ import annotations

from collections.abc import Hashable

from serq.runtime.vllm.tokens import Piece, TokenSequence


class Run:
    """Where prefixes part: equal only to itself. It may be any number of blocks long."""

    __slots__ = ()


class RunHasher:
    """Interned runs: two sequences share one exactly where they are equal up to its first block."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._runs: dict[tuple[Hashable, ...], Run] = {}

    def run(self, *place: Hashable) -> Run:
        """The run that begins at ``place``: the block before it, and what its first block holds."""
        run = self._runs.get(place)
        if run is None:
            run = self._runs[place] = Run()
        return run

    def keys_of(self, sequence: TokenSequence) -> PrefixChain:
        """The prefixes of ``sequence``."""
        return PrefixChain(self, sequence)


class Chain:
    """The blocks of one request: run i holds ``ends[i - 1]`` to ``ends[i] - 1``, from its own block 0 on."""

    __slots__ = ("ends", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.ends: list[int] = []


class PrefixChain(Chain):
    """The whole blocks of one sequence, extended as its tokens come to exist."""

    __slots__ = ("_hasher", "_offset", "_open", "_piece", "_sequence", "block_size")

    def __init__(self, hasher: RunHasher, sequence: TokenSequence) -> None:
        super().__init__()
        self._hasher = hasher
        self._sequence = sequence
        self.block_size = hasher.block_size
        self._piece = 0
        self._offset = 0
        self._open = False
        self.extend()

    @property
    def keys(self) -> PrefixChain:
        """The chain itself, which stands where other engines have lists of keys."""
        return self

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def extend(self) -> None:
        """Append the blocks that have become whole."""
        size, sequence = self.block_size, self._sequence
        missing = sequence.length // size - len(self)
        while missing > 0:
            source, start, length = sequence.run(self._piece)
            left = length - self._offset
            if not left:
                self._next_piece()
                continue
            whole = min(left // size, missing)
            if not whole:
                self._append_mixed()
                missing -= 1
                continue
            if self._open:
                self.ends[-1] += whole
            else:
                self._append((source, start + self._offset), whole)
                self._open = True
            self._offset += whole * size
            missing -= whole

    def _append(self, content: tuple[Hashable, ...], blocks: int) -> None:
        parent: tuple[Hashable, ...] = ()
        if self.runs:
            before = self.ends[-2] if len(self.ends) > 1 else 0
            parent = (self.runs[-1], self.ends[-1] - before)
        self.runs.append(self._hasher.run(*parent, *content))
        self.ends.append(len(self) + blocks)

    def _append_mixed(self) -> None:
        """One block out of several pieces: a run of its own."""
        size = self.block_size
        pieces: list[Piece] = []
        while size:
            source, start, length = self._sequence.run(self._piece)
            taken = min(size, length - self._offset)
            if not taken:
                self._next_piece()
                continue
            pieces.append((source, start + self._offset, taken))
            size -= taken
            self._offset += taken
        self._append((tuple(pieces),), 1)
        self._open = False

    def _next_piece(self) -> None:
        self._piece += 1
        self._offset = 0
        self._open = False
