"""What a run costs where a device-hour has a price: device-hours, money, money per million tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Final

from serq import arguments
from serq.errors import UsageError
from serq.ir import nodes
from serq.results.engines import EngineFigures
from serq.runtime.records import Records

_SECONDS_AN_HOUR: Final = 3600.0
_MILLION: Final = 1e6


@dataclass(frozen=True, slots=True)
class MoneyRow:
    """What all engines, or those of one stage, cost from warm-up to the end of a run.

    ``about`` is `all` or the stage. Tokens are those of requests served in full: ``output_tokens`` what was
    generated, ``tokens`` their prompts as well. NaN where nothing was generated, and in the row of a stage.
    """

    about: str
    devices: int
    device_hours: float
    money: float
    output_tokens: float = nan
    tokens: float = nan

    @property
    def per_million_output_tokens(self) -> float:
        """Money for a million generated tokens."""
        return _per_million(self.money, self.output_tokens)

    @property
    def per_million_tokens(self) -> float:
        """Money for a million tokens, prompts and outputs."""
        return _per_million(self.money, self.tokens)


def devices(program: nodes.Program) -> dict[str, int]:
    """Stage -> the devices of all its members, for every stage that is an engine (`vllm`, `step`).

    A member has `tensor_parallel_size` devices, as its executor says, else its layout, else one, for each of
    its `pipeline_parallel_size` stages. Data-parallel ranks are members of their own.
    """
    executors = {executor.name: executor for executor in program.executors}
    found = {}
    for stage in program.stages:
        if isinstance(stage.kind, nodes.Vllm | nodes.Step):
            found[stage.name] = stage.count * _devices_of_a_member(stage.kind, executors)
    return found


def _devices_of_a_member(kind: nodes.Vllm | nodes.Step, executors: Mapping[str, nodes.Executor]) -> int:
    shares: float | None = None
    pipeline = 1
    if isinstance(kind, nodes.Vllm):
        shares, pipeline = kind.layout.tensor_parallel_size, kind.pipeline_parallel_size or 1
    if isinstance(kind.cost, nodes.Via):
        option = executors[kind.cost.executor].option("tensor_parallel_size")
        if option is not None and isinstance(option.value, int | float):
            shares = option.value
    return int(shares or 1) * pipeline


def checked_price(program: nodes.Program, given: float) -> float:
    """What a device costs an hour. Raises UsageError for no price, and for a program without devices."""
    price = arguments.number("price_per_hour", given)
    if not 0 < price < inf:
        raise UsageError(f"a price of {price:g} a device-hour: it must be positive and finite")
    if not devices(program):
        raise UsageError("a device-hour has a price, and the program has no engine (`vllm`, `step`)")
    return price


def money_rows(
    program: nodes.Program, records: Records, engines: Sequence[EngineFigures], price_per_hour: float
) -> list[MoneyRow]:
    """All engines, then every stage where there are several; devices cost whether they compute or not.

    Tokens of engines that only prefill for others (`kv_role kv_producer`) are not counted, as the engines
    that decode report the same requests, unless there are no others.
    """
    hours = (records.end - records.warmup) / _SECONDS_AN_HOUR
    counts = devices(program)
    served = [engine for engine in engines if ("kv_role", "kv_producer") not in engine.row.options] or engines
    output = sum(engine.output_tokens for engine in served)
    whole = output + sum(engine.input_tokens for engine in served)
    rows = [_row(name, count, hours, price_per_hour) for name, count in counts.items()]
    total = _row("all", sum(counts.values()), hours, price_per_hour, output, whole)
    return [total, *(rows if len(rows) > 1 else [])]


def _row(
    about: str, count: int, hours: float, price: float, output: float = nan, whole: float = nan
) -> MoneyRow:
    return MoneyRow(about, count, count * hours, count * hours * price, output or nan, whole or nan)


def _per_million(money: float, tokens: float) -> float:
    return money / (tokens / _MILLION)
