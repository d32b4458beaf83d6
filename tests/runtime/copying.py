"""Copies of engines. `copy` makes objects without arguments and fills them; compiled classes want some."""

from __future__ import annotations

import copy
import copyreg
from typing import Any, Final, TypeVar

from serq.runtime.serving.step_totals import StepTotals, TotalsReader
from serq.runtime.vllm.extents.chains import PrefixChain, Run, RunHasher
from serq.runtime.vllm.extents.pool import Extent, ExtentPool
from serq.runtime.vllm.tokens import TokenSequence

Value = TypeVar("Value")

_BLANKS: Final[dict[type, Any]] = {
    Extent: lambda: Extent(Run(), 0, 0),
    ExtentPool: lambda: ExtentPool(1, enable_caching=False),
    PrefixChain: lambda: PrefixChain(RunHasher(1), TokenSequence()),
    RunHasher: lambda: RunHasher(1),
    StepTotals: lambda: StepTotals(0, 0, 0),
    TotalsReader: lambda: TotalsReader(frozenset(), None)  # type: ignore[arg-type],
}


def _parts(value: Any) -> tuple[Any, ...]:
    return (_BLANKS[type(value)], (), *value.__reduce_ex__(4)[2:])


for _kind in _BLANKS:
    copyreg.pickle(_kind, _parts)  # type: ignore[arg-type]


def deep_copy(value: Value) -> Value:
    """A copy of ``value`` and of all that it refers to."""
    return copy.deepcopy(value)
