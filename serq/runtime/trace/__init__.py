"""Traces: what recorded sessions brought, and when. See ``TraceFormat``."""

from serq.runtime.trace.columns import TOKENS_PER_HASH, Trace, TraceFormat
from serq.runtime.trace.reading import TraceFile, open_trace, read_trace
from serq.runtime.trace.replay import TraceSource
from serq.runtime.trace.writing import write_trace

__all__ = [
    "TOKENS_PER_HASH",
    "Trace",
    "TraceFile",
    "TraceFormat",
    "TraceSource",
    "open_trace",
    "read_trace",
    "write_trace",
]
