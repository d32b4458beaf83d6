"""Every kind of executor and its options, in one table (docs/executors.md).

The linker, the validator, the factories in ``serq.kernels`` and the documentation read this table and no
other. An option without a default is optional and means what its meaning says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from serq.ir.engine_options import EngineOption, Table, option_table


@dataclass(frozen=True, slots=True)
class ExecutorKind:
    """A kind of executor. ``prices_totals``: it can price a step of which only totals are known."""

    name: str
    meaning: str
    options: Table
    prices_totals: bool = False


ROOFLINE: Final = ExecutorKind(
    "roofline",
    "what the arithmetic and the memory traffic of a model take on a device, at stated efficiencies",
    option_table(
        EngineOption("model", "text", None, "a model of the catalogue", "", required=True),
        EngineOption("device", "text", None, "a device of the catalogue", "", required=True),
        EngineOption("tensor_parallel_size", "count", 1, "devices that share every layer", "", 1),
    ),
    prices_totals=True,
)

TABLE: Final = ExecutorKind(
    "table",
    "measured latencies of operators, interpolated between measured points",
    option_table(
        EngineOption("tables", "text", None, "the folder of the tables", "", required=True),
        EngineOption("extrapolation", "word", "linear", "what is done beyond the measured range", "",
                     words=("error", "nearest", "linear")),
    ),
)  # fmt: skip

EXECUTOR_KINDS: Final[Mapping[str, ExecutorKind]] = MappingProxyType(
    {kind.name: kind for kind in (ROOFLINE, TABLE)}
)
"""Kind of an executor -> what it is and what it takes."""
