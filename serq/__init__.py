"""serq: an LLM serving deployment as a short program, run as an exact discrete-event model.

In a notebook::

    report = serq.run("engine.sq")
    report.observe("ttft")["value"].quantile(0.9)
    report.plot("latency")
    serq.sweep("engine.sq", {"rate": "1:8:1"}, replications=5).plot("ttft.p99")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from serq.errors import CompileError, DataError, RunError, SerqError, UsageError

if TYPE_CHECKING:
    from serq.api import Program, check, compile, open_run_folder, read_run, run
    from serq.results import Report
    from serq.studies.notebook import capacity, compare, sweep

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "DataError",
    "Program",
    "Report",
    "RunError",
    "SerqError",
    "UsageError",
    "capacity",
    "check",
    "compare",
    "compile",
    "open_run_folder",
    "read_run",
    "run",
    "sweep",
]

# Where the public names come from when they are first asked for: `python -m serq.oracle.capture` runs in a
# Python that has vLLM and none of serq's dependencies, and must be able to import this package.
_HOMES = {
    "Program": "serq.api",
    "Report": "serq.results",
    "capacity": "serq.studies.notebook",
    "check": "serq.api",
    "compare": "serq.studies.notebook",
    "compile": "serq.api",
    "open_run_folder": "serq.api",
    "read_run": "serq.api",
    "run": "serq.api",
    "sweep": "serq.studies.notebook",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'serq' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
