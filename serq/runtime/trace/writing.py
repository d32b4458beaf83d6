"""Traces written back to files, each in a format that can hold it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from serq.errors import DataError
from serq.runtime.trace.azure import azure_lines
from serq.runtime.trace.columns import Trace, TraceFormat
from serq.runtime.trace.mooncake import mooncake_lines
from serq.runtime.trace.session_csv import session_csv_lines

WRITTEN: Final = ("session", "azure", "mooncake")
"""Formats that are written as well as read."""


def write_trace(trace: Trace, format: TraceFormat | None = None, *, times: bool = True) -> Iterable[str]:
    """The lines of ``trace`` in ``format``: session, azure or mooncake.

    Without one it is the format that the trace was read from, a session CSV where that is only read.
    ``times`` asks for the `time` column of a session CSV. Raises DataError where the format cannot hold
    the trace: the request formats hold one turn a session, at a time, with whole numbers of tokens.
    """
    target = format or (trace.format if trace.format in WRITTEN else "session")
    if target not in WRITTEN:
        raise DataError(f"traces are not written as {target}, only as {', '.join(WRITTEN)}")
    if target == "session":
        return session_csv_lines(trace, times=times)
    obstacle = _obstacle(trace, target)
    if obstacle is not None:
        raise DataError(f"a trace with {obstacle} cannot be written as {target}; write a session CSV")
    return azure_lines(trace) if target == "azure" else mooncake_lines(trace)


def _obstacle(trace: Trace, target: TraceFormat) -> str | None:
    """What ``target`` cannot say about ``trace``."""
    if trace.times is None:
        return "no times"
    if trace.turns != trace.sessions:
        return "several turns in a session"
    if any(trace.think) or any(trace.forced):
        return "think times or forced tokens"
    if not all(value >= 0 and value.is_integer() for column in (trace.new, trace.out) for value in column):
        return "token counts that are not whole"
    if target == "mooncake" and trace.hash_ids is None:
        return "no hash ids"
    return None
