"""A figure of a report by the name of its row and field, as `expect` asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from serq.ir.expressions import ReportRead
from serq.ir.figures import ENGINE_LATENCIES, QUANTILES
from serq.results.engines import EngineFigures, engine_figures
from serq.results.objectives import GoodputRow
from serq.results.statistics import Summary, quantile
from serq.runtime.records import PoolRow, Records, StageRow


class Figures:
    """Everything that the rows of a report say; ``goodput`` are its rows, that of all requests first."""

    def __init__(
        self, records: Records, summaries: Mapping[str, Summary], goodput: Sequence[GoodputRow] = ()
    ) -> None:
        self._records = records
        self._summaries = summaries
        self._goodput = goodput

    def read(self, node: ReportRead, member: int = 0) -> float:
        """The figure that ``node`` asks for, of one member of a family; NaN where it is not determined."""
        match node.row:
            case "run":
                return self._of_run(node.field)
            case "observation":
                return self._of_observation(node.name, node.field)
            case "gauge":
                row = next(gauge for gauge in self._records.gauges if gauge.name == node.name)
                return float(getattr(row, node.field))
            case "engine":
                return _of_engine(self._engines[node.name, member], node.field)
            case _:
                rows = self._stages if node.row == "stage" else self._pools
                return float(getattr(rows[node.name, member], node.field))

    def _of_run(self, field: str) -> float:
        if field.startswith("goodput"):
            return self._goodput[0].per_second if field == "goodput" else self._goodput[0].share
        return float(getattr(self._records, field))

    def _of_observation(self, name: str, field: str) -> float:
        if field in QUANTILES and field != "p99":
            return quantile(self._records.series[name].values, QUANTILES[field])
        return float(getattr(self._summaries[name], field))

    @cached_property
    def _stages(self) -> dict[tuple[str, int], StageRow]:
        return {(row.name, row.member): row for row in self._records.stages}

    @cached_property
    def _pools(self) -> dict[tuple[str, int], PoolRow]:
        return {(row.name, row.member): row for row in self._records.pools}

    @cached_property
    def _engines(self) -> dict[tuple[str, int], EngineFigures]:
        return {(row.row.name, row.row.member): row for row in engine_figures(self._records)}


def _of_engine(engine: EngineFigures, field: str) -> float:
    if field == "requests":
        return float(engine.requests)
    for latency in ENGINE_LATENCIES:
        if field.startswith(f"{latency}_"):
            return float(getattr(getattr(engine, latency), field.removeprefix(f"{latency}_")))
    return float(getattr(engine if field.endswith("throughput") else engine.row, field))
