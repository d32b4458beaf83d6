"""How long requests waited to be admitted, from the part files of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from serq.results.run_folder.part_files import PartFiles
from serq.results.run_folder.stored_values import StoredValues
from serq.runtime.serving.starvation import Wait

if TYPE_CHECKING:
    from pandas import DataFrame

_COLUMNS: Final = ("request", "session", "queued", "scheduled", "finish")


@dataclass(frozen=True)
class StoredWaits:
    """The requests of one engine that it has taken in (:class:`serq.runtime.serving.starvation.Waits`).

    They stand in the order of sending, so those sent last were taken in last.
    """

    requests: PartFiles
    stage: str
    member: int

    def _mine(self, path: Path) -> DataFrame:
        part = self.requests.read_part(path, (*_COLUMNS, "stage", "member"))
        mine = (part["stage"] == self.stage) & (part["member"] == self.member)
        return part[mine & part["queued"].notna()]

    def latest_first(self) -> Iterator[Wait]:
        """Those taken in last come first."""
        for path in reversed(self.requests.paths()):
            part = self._mine(path)
            columns = (part[name].to_numpy()[::-1].tolist() for name in _COLUMNS)
            yield from (Wait(*row) for row in zip(*columns, strict=True))

    @cached_property
    def _lengths(self) -> StoredValues:
        paths = self.requests.paths()

        def lengths(part: int) -> Any:
            mine = self._mine(paths[part])
            return (mine["scheduled"] - mine["queued"]).dropna().to_numpy()

        return StoredValues.of(lengths, len(paths))

    def admitted(self) -> int:
        """How many were admitted."""
        return len(self._lengths)

    def admitted_at_rank(self, rank: int) -> float:
        """The wait at ``rank``, from 0, if those of the admitted were sorted."""
        return self._lengths.at_ranks([rank])[0]
