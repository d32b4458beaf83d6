"""Steps priced by an executor, and what the prices were made of: seconds by operator and by evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from serq.ir import nodes
from serq.kernels.executor import BatchTotals, Evidence, Executor, Price, TotalsExecutor
from serq.kernels.registry import (
    BuiltExecutor,
    CacheRequest,
    Origin,
    PricedStage,
    Setting,
    create_executor,
)
from serq.kernels.step_batch import StepBatch
from serq.runtime.token_run import TokenBatch
from serq.source import Diagnostic

PRICED_TOTALS: Final = frozenset({"decoders", "kv_decode", "kv_prefill", "attention"})
"""The totals of an iteration of a `step` stage that are computed only where somebody reads them."""


@dataclass(slots=True)
class OutsideRow:
    """How often and how far an operator was priced outside the range measured on one dimension."""

    steps: int
    smallest: float
    largest: float
    low: float
    high: float

    def merge(self, other: OutsideRow) -> None:
        """Add the steps of another member."""
        self.steps += other.steps
        self.smallest = min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)


@dataclass(slots=True)
class PriceLedger:
    """Seconds of the steps priced since warm-up."""

    steps: int = 0
    seconds: float = 0.0
    operators: dict[str, dict[Evidence, float]] = field(default_factory=dict)
    """Operator -> evidence -> seconds, in the order in which operators first appeared."""
    outside: dict[tuple[str, str], OutsideRow] = field(default_factory=dict)
    """(operator, dimension) -> where the prices left the measured range; of the whole run."""

    def add(self, price: Price) -> None:
        """Count one step."""
        self.steps += 1
        self.seconds += price.seconds
        operators = self.operators
        for name, seconds, evidence, outside in price.operators:
            shares = operators.get(name)
            if shares is None:
                shares = operators[name] = {}
            shares[evidence] = shares.get(evidence, 0.0) + seconds
            for dimension, value, low, high in outside:
                row = OutsideRow(1, value, value, low, high)
                known = self.outside.setdefault((name, dimension), row)
                if known is not row:
                    known.merge(row)

    def reset(self) -> None:
        """Forget what warm-up measured (R-B-091); what left the measured range stays known."""
        self.steps, self.seconds = 0, 0.0
        self.operators.clear()

    def merge(self, other: PriceLedger) -> None:
        """Add the steps of another member of the same stage."""
        self.steps += other.steps
        self.seconds += other.seconds
        for name, shares in other.operators.items():
            mine = self.operators.setdefault(name, {})
            for evidence, seconds in shares.items():
                mine[evidence] = mine.get(evidence, 0.0) + seconds
        for key, row in other.outside.items():
            known = self.outside.setdefault(key, replace(row, steps=0))
            known.merge(row)


@dataclass(slots=True)
class PriceRow:
    """What the steps of one stage, all members together, were priced at over [warm-up, end]."""

    stage: str
    executor: str
    kind: str
    settings: tuple[Setting, ...]
    ledger: PriceLedger
    origins: tuple[Origin, ...] = ()
    """The measurements that its prices use."""


class MeteredExecutor:
    """The executor of one member of a stage; what it charges is written into the ledger."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.ledger = PriceLedger()

    def seconds(self, batch: StepBatch) -> float:
        """The price of a step with rows."""
        price = self.executor.price(batch)
        self.ledger.add(price)
        return price.seconds

    def seconds_of_totals(self, batch: TokenBatch) -> float:
        """The price of an iteration of a `step` stage: its memory units stand for computed tokens."""
        assert isinstance(self.executor, TotalsExecutor)
        totals = BatchTotals(
            tokens=batch.tokens,
            prefilled=batch.prefilled,
            scheduled=float(batch.scheduled),
            decoders=batch.decoders,
            context_decode=batch.kv_decode,
            context_prefill=batch.kv_prefill,
            attention=batch.attention,
        )
        if totals.tokens <= 0.0:
            return 0.0
        price = self.executor.price_totals(totals)
        self.ledger.add(price)
        return price.seconds


@dataclass(slots=True)
class _PricedStage:
    declared: nodes.Executor
    built: BuiltExecutor
    members: list[MeteredExecutor] = field(default_factory=list)
    num_gpu_blocks: int | None = None
    memory: tuple[Setting, ...] = ()


class Pricing:
    """The executors of a run: one object a stage, since a price depends on the step alone."""

    def __init__(
        self, program: nodes.Program, functions: Mapping[str, Callable[..., Any]], folder: Path
    ) -> None:
        self.folder = folder
        self._declared = {executor.name: (i, executor) for i, executor in enumerate(program.executors)}
        self._functions = functions
        self._stages: dict[str, _PricedStage] = {}

    def built(self, via: nodes.Via, stage: PricedStage) -> BuiltExecutor:
        """The executor that ``via`` names, for the steps of ``stage``. Raises RunError."""
        if stage.name not in self._stages:
            number, declared = self._declared[via.executor]
            rules = {
                option.name: self._functions[f"rule_{number}_{option.name}"]
                for option in declared.options
                if isinstance(option.value, nodes.Node)
            }
            self._stages[stage.name] = _PricedStage(declared, create_executor(declared, stage, rules))
        return self._stages[stage.name].built

    def num_gpu_blocks(self, via: nodes.Via, stage: PricedStage, request: CacheRequest) -> int:
        """The blocks that the executor computes for a stage that does not say them. Raises RunError."""
        memory = self.built(via, stage).memory
        assert memory is not None  # others are refused when the program is compiled
        found = self._stages[stage.name]
        if found.num_gpu_blocks is None:
            found.num_gpu_blocks, found.memory = memory.num_gpu_blocks(request)
        return found.num_gpu_blocks

    def member(self, via: nodes.Via, stage: PricedStage) -> MeteredExecutor:
        """What prices the steps of one more member of ``stage``."""
        metered = MeteredExecutor(self.built(via, stage).executor)
        self._stages[stage.name].members.append(metered)
        return metered

    def reset(self) -> None:
        """Statistics begin (R-B-091)."""
        for stage in self._stages.values():
            for member in stage.members:
                member.ledger.reset()

    def rows(self) -> list[PriceRow]:
        """The figures of every priced stage, in the order of declaration."""
        rows = []
        for name, stage in self._stages.items():
            ledger = PriceLedger()
            for member in stage.members:
                ledger.merge(member.ledger)
            declared, settings = stage.declared, (*stage.built.settings, *stage.memory)
            origins = stage.built.origins
            rows.append(PriceRow(name, declared.name, declared.kind, settings, ledger, origins))
        return rows

    def warnings(self) -> list[Diagnostic]:
        """Every operator and dimension on which a price lay outside what was measured."""
        return [
            _outside(row, operator, dimension, found)
            for row in self.rows()
            for (operator, dimension), found in row.ledger.outside.items()
        ]


def _outside(row: PriceRow, operator: str, dimension: str, found: OutsideRow) -> Diagnostic:
    reached = f"{found.smallest:.6g}"
    if found.largest != found.smallest:
        reached += f" to {found.largest:.6g}"
    return Diagnostic(
        "outside-measured-range",
        f"`{operator}` was priced outside what was measured in {found.steps} step(s): {dimension} {reached}, "
        f"measured from {found.low:.6g} to {found.high:.6g}",
        owner=f"stage `{row.stage}`, executor `{row.executor}`",
        severity="warning",
        help="these prices are extrapolated; measure there, or stay within the range",
    )
