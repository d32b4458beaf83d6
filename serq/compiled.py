"""The modules that a compiled wheel has as machine code, made by mypyc of the same sources.

The build reads this file before the package is there (`hatch_build.py`): it needs the standard library only.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

MODULES: Final = (
    "serq.runtime.open_run.cached_blocks",
    "serq.runtime.open_run.counts",
    "serq.runtime.open_run.driver",
    "serq.runtime.open_run.engine",
    "serq.runtime.open_run.figures",
    "serq.runtime.open_run.forming",
    "serq.runtime.open_run.gateway",
    "serq.runtime.open_run.giving_way",
    "serq.runtime.open_run.leaving",
    "serq.runtime.open_run.notes",
    "serq.runtime.open_run.prompt_ahead",
    "serq.runtime.open_run.prompts",
    "serq.runtime.open_run.request",
    "serq.runtime.open_run.sessions",
    "serq.runtime.open_run.stage",
    "serq.runtime.open_run.together",
    "serq.runtime.open_run.waiting",
    "serq.runtime.serving.numbers",
    "serq.runtime.serving.step_totals",
    "serq.runtime.straight.engine",
    "serq.runtime.straight.entrance",
    "serq.runtime.straight.iterations",
    "serq.runtime.straight.resident",
    "serq.runtime.straight.run",
    "serq.runtime.vllm.extents.chains",
    "serq.runtime.vllm.extents.pool",
)
"""The loops in which runs spend their time. All of them are compiled in a compiled wheel, none elsewhere."""


def compiled_modules() -> tuple[str, ...]:
    """Those of ``MODULES`` that are machine code here."""
    return tuple(name for name in MODULES if _is_machine_code(name))


def is_compiled() -> bool:
    """Whether this is a compiled wheel."""
    return compiled_modules() == MODULES


def _is_machine_code(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
