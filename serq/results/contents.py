"""What a report shows, in its order: every form of it (text, notebook, page) lays out the same."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from serq.results.opening import Line
from serq.results.tables import Table
from serq.source import Diagnostic


class Contents(msgspec.Struct, frozen=True):
    """The parts of a report: first lines, the run in one line, tables, notes, warnings, expectations."""

    opening: Sequence[Line]
    headline: str
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[Diagnostic] = ()
    outcomes: Sequence[str] = ()
    stopped: str | None = None
