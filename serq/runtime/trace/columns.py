"""A trace, or a part of one: one column a quantity, one entry a turn, sessions as ranges of entries."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import le
from typing import Final, Literal

TraceFormat = Literal["session", "azure", "mooncake", "lengths", "vllm-bench"]

TOKENS_PER_HASH: Final = 512
"""Prompt tokens that a hash id of a Mooncake trace stands for; the last id of a prompt may mean fewer."""

_LARGEST_WHOLE: Final = 2.0**31

ROWS_A_PART: Final = 512
"""Rows from which on a reader ends a part, at the end of a block: sessions alive keep their parts, which must
not be large."""


def _doubles() -> array[float]:
    return array("d")


def _first_row_sentinel() -> array[int]:
    return array("q", [0])


@dataclass(slots=True)
class Trace:
    """A corpus of sessions (R-B-080). A turn is a row: ``new[r]``, ``out[r]``, ``think[r]``, ``forced[r]``.

    ``first_row`` has one entry more than there are sessions: session ``i`` is the rows
    ``first_row[i] .. first_row[i + 1] - 1``. ``times[i]`` is when it arrived, in seconds after the first
    session of the file (None: the file has no times). ``hash_ids[r]`` names the text of the prompt of row
    ``r``, 512 tokens an id (None: the format has none).
    """

    format: TraceFormat = "session"
    new: array[float] = field(default_factory=_doubles)
    """New prompt tokens of the turn."""
    out: array[float] = field(default_factory=_doubles)
    """Tokens generated in the turn."""
    think: array[float] = field(default_factory=_doubles)
    """Seconds that the client lets pass after the turn."""
    forced: array[float] = field(default_factory=_doubles)
    """Tokens of the turn that the client supplies instead of the model; 0 where the file has none."""
    first_row: array[int] = field(default_factory=_first_row_sentinel)
    times: array[float] | None = None
    hash_ids: list[array[int]] | None = None

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(self.first_row) - 1

    @property
    def whole(self) -> bool:
        """Whether all tokens are whole numbers of usual size."""
        return all(
            not any(column) or (all(map(float.is_integer, column)) and max(column) < _LARGEST_WHOLE)
            for column in (self.new, self.out, self.forced)
        )

    @property
    def turns(self) -> int:
        """How many turns (rows) there are in all."""
        return len(self.new)

    def rows(self, session: int) -> range:
        """The row numbers of one session."""
        return range(self.first_row[session], self.first_row[session + 1])

    def add_turn(self, new: float, out: float, think: float = 0.0, forced: float = 0.0) -> None:
        """Append a row to the session being built; :meth:`close_session` ends it."""
        self.new.append(new)
        self.out.append(out)
        self.think.append(think)
        self.forced.append(forced)

    def add_session(self, time: float, new: float, out: float) -> None:
        """Append a session of one turn that arrives at ``time``, to a trace that has times."""
        assert self.times is not None
        self.times.append(time)
        self.add_turn(new, out)
        self.close_session()

    def add_sessions(self, times: list[float], new: list[float], out: list[float]) -> None:
        """What :meth:`add_session` does, for many sessions at once."""
        assert self.times is not None
        nothing = bytes(self.think.itemsize * len(times))
        self.first_row.extend(range(self.turns + 1, self.turns + len(times) + 1))
        self.times.fromlist(times)
        self.new.fromlist(new)
        self.out.fromlist(out)
        self.think.frombytes(nothing)
        self.forced.frombytes(nothing)

    def close_session(self) -> None:
        """The rows added since the last call are one session."""
        self.first_row.append(len(self.new))

    def split(self) -> Trace:
        """Take out the session being built, if there is one: it begins the trace that is returned."""
        last = self.first_row[-1]
        new, out, think, forced = (column[last:] for column in self._turn_columns())
        following = Trace(self.format, new, out, think, forced)
        if self.times is not None:
            following.times = self.times[self.sessions :]
            del self.times[self.sessions :]
        if self.hash_ids is not None:
            following.hash_ids = self.hash_ids[last:]
            del self.hash_ids[last:]
        for column in self._turn_columns():
            del column[last:]
        return following

    def _turn_columns(self) -> tuple[array[float], array[float], array[float], array[float]]:
        return self.new, self.out, self.think, self.forced

    @classmethod
    def joined(cls, parts: Iterable[Trace]) -> Trace:
        """One trace of ``parts``, of which there is at least one, in their order."""
        whole: Trace | None = None
        for part in parts:
            if whole is None:
                whole = part
            else:
                whole._append(part)
        assert whole is not None
        return whole

    def _append(self, part: Trace) -> None:
        before = len(self.new)
        for mine, other in (
            *((self.new, part.new), (self.out, part.out), (self.think, part.think)),
            *((self.forced, part.forced), (self.times, part.times)),
        ):
            if mine is not None and other is not None:
                mine.extend(other)
        self.first_row.extend([before + row for row in part.first_row[1:]])
        if self.hash_ids is not None and part.hash_ids is not None:
            self.hash_ids.extend(part.hash_ids)

    def parts(self) -> Iterator[Trace]:
        """The trace itself, its only part: files too long for memory have several."""
        yield self

    def loaded(self) -> Trace:
        """The trace itself: it is in memory."""
        return self

    @property
    def timed(self) -> bool:
        """Whether it says when sessions arrive."""
        return self.times is not None

    @property
    def in_order(self) -> bool:
        """Whether no session arrives before the one ahead of it in the file."""
        return self.times is None or all(map(le, self.times, islice(self.times, 1, None)))

    def select(self, sessions: Sequence[int], times: array[float] | None) -> Trace:
        """A trace of the given sessions in the given order (one may come twice), arriving at ``times``."""
        picked = Trace(format=self.format, times=times, hash_ids=None if self.hash_ids is None else [])
        for session in sessions:
            rows = slice(self.first_row[session], self.first_row[session + 1])
            picked.new.extend(self.new[rows])
            picked.out.extend(self.out[rows])
            picked.think.extend(self.think[rows])
            picked.forced.extend(self.forced[rows])
            if picked.hash_ids is not None and self.hash_ids is not None:
                picked.hash_ids.extend(self.hash_ids[rows])
            picked.close_session()
        return picked
