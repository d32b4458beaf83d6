"""Which format a trace file has is told by its first line."""

from __future__ import annotations

from pathlib import Path

from serq.runtime.trace.azure import HEADER as AZURE_HEADER
from serq.runtime.trace.azure import read_azure
from serq.runtime.trace.columns import Trace, TraceFormat
from serq.runtime.trace.mooncake import read_mooncake
from serq.runtime.trace.session_csv import read_session_csv
from serq.source import read_text

_READERS = {"session": read_session_csv, "azure": read_azure, "mooncake": read_mooncake}


def read_trace(path: str | Path) -> Trace:
    """Read a trace file: session CSV (R-B-080), Azure CSV or Mooncake JSONL.

    A relative path is read from the current directory. Raises DataError, in one line that names the file
    and the row, where the file is missing, not text, empty, or has a bad row.
    """
    text = read_text(path, "trace")
    return _READERS[recognise(text)](str(path), text)


def recognise(text: str) -> TraceFormat:
    """The format that the first line of a trace announces."""
    first = text.partition("\n")[0].strip()
    if first == AZURE_HEADER:
        return "azure"
    return "mooncake" if first.startswith("{") else "session"
