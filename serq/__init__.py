"""serq: an LLM serving deployment as a short program, run as an exact discrete-event model.

    report = serq.run("engine.sq")
    report.observe("ttft")["value"].quantile(0.9)
"""

from serq.api import Program, check, compile, run
from serq.errors import CompileError, DataError, RunError, SerqError, UsageError
from serq.results import Report

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "DataError",
    "Program",
    "Report",
    "RunError",
    "SerqError",
    "UsageError",
    "check",
    "compile",
    "run",
]
