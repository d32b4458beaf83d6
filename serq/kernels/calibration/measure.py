"""Carrying out a plan: every point once, kept as soon as it is measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from serq.errors import RunError
from serq.ir.serving import Executor as DeclaredExecutor
from serq.ir.serving import ExecutorOption
from serq.kernels.calibration.plan import CalibrationPlan, PlannedTable, Target, step_at
from serq.kernels.measuring.executor import Measurement, MeasuringExecutor
from serq.kernels.measuring.factory import measurement_of
from serq.kernels.measuring.operators import MeasuredOperator
from serq.kernels.measuring.store import TableKind
from serq.kernels.registry import ExecutorOptions, PricedStage
from serq.kernels.step_batch import StepBatch

Watch = Callable[[int, int, str], None]
"""Points done, points in all, the table that is measured."""

WITHOUT_LINK = 1.0
"""Collectives are no part of a calibration; a link has to be named where ranks share layers."""


def measure(plan: CalibrationPlan, folder: Path, watch: Watch | None = None) -> int:
    """Measure what the folder lacks; how many points that were.

    May be stopped or killed at any time and goes on where it was. Raises RunError where the device or its
    software is missing, or cannot run a point.
    """
    measurement = measurement_for(plan.target, folder)
    executor = MeasuringExecutor(measurement)
    done = fresh = 0
    for table in plan.tables:
        for point in table.points:
            batch = step_at(table.axes, point)
            operator = _operator(measurement, table, batch)
            kind = TableKind(table.name, table.axes, operator.layers, table.when)
            key = tuple(str(value) for value in point)
            before = key in measurement.tables.known(kind)
            measurement.tables.price(kind, key, partial(executor.time, operator, batch))
            done, fresh = done + 1, fresh + (not before)
            if watch is not None:
                watch(done, plan.size, table.name)
    return fresh


def measurement_for(target: Target, folder: Path) -> Measurement:
    """What measures the points of a target. Raises RunError where it cannot be made."""
    given: dict[str, str | int | float | bool | None] = {
        "model": target.model,
        "device": target.device,
        "tables": str(folder.resolve()),
        "tensor_parallel_size": target.tensor_parallel_size,
        "dtype": target.dtype,
        "kv_cache_dtype": target.kv_cache_dtype,
        "attention": target.attention,
        "warmup": target.warmup,
        "repeats": target.repeats,
        "layout": "plain",
        "context_step": 1,
        "link_bandwidth": WITHOUT_LINK if target.tensor_parallel_size > 1 else None,
    }
    options = tuple(ExecutorOption(name, value) for name, value in given.items() if value is not None)
    declared = DeclaredExecutor("calibration", target.kind, options)
    stage = PricedStage(
        "calibration",
        max_num_seqs=target.max_num_seqs,
        max_num_batched_tokens=target.max_num_batched_tokens,
        max_model_len=target.max_model_len + target.max_num_batched_tokens,
    )
    return measurement_of(target.kind, ExecutorOptions(declared, {}), stage)


def _operator(measurement: Measurement, table: PlannedTable, batch: StepBatch) -> MeasuredOperator:
    layout = measurement.layout.layout(batch)
    for operator in measurement.plan.operators(batch, layout):
        if operator.name == table.operator:
            return operator
    raise RunError(f"the plan has `{table.operator}`, and the model has none", code="executor-options")
