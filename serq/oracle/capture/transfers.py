"""KV transfers on the virtual clock: when a load or a send ends, and what the worker then reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vllm.v1.outputs import KVConnectorOutput

from serq.oracle.capture.connector import Load, ScriptedConnector


@dataclass(frozen=True, slots=True)
class Report:
    """Transfers that ended by the end of a step. vLLM reports sets; we fix their order by sorting."""

    received: tuple[str, ...]
    sent: tuple[str, ...]
    invalid_block_ids: frozenset[int]

    def as_output(self) -> KVConnectorOutput:
        """The report in vLLM's words; iterating over the dictionaries gives the ids in a fixed order."""
        return KVConnectorOutput(
            finished_recving=dict.fromkeys(self.received) or None,
            finished_sending=dict.fromkeys(self.sent) or None,
            invalid_block_ids=set(self.invalid_block_ids),
        )


class Transfers:
    """All transfers under way. With no scripted connector there are none."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        connector = scheduler.connector
        self._connector = connector if isinstance(connector, ScriptedConnector) else None
        self._loads: list[tuple[int, Load]] = []
        self._sends: list[tuple[int, str]] = []

    def step_launched(self, start: int, end: int) -> None:
        """Begin the loads of a step: a synchronous one ends with the step, whatever its delay."""
        if self._connector is None:
            return
        for load in self._connector.take_loads():
            self._loads.append((start + load.delay if load.is_async else end, load))

    def report(self, now: int) -> Report | None:
        """Everything that has ended by ``now``, the end of a step; None without a scripted connector."""
        if self._connector is None:
            return None
        self._sends += [(now + send.delay, send.request_id) for send in self._connector.take_sends()]
        loaded = [load for end, load in self._loads if end <= now]
        sent = {request_id for end, request_id in self._sends if end <= now}
        self._loads = [entry for entry in self._loads if entry[0] > now]
        self._sends = [entry for entry in self._sends if entry[0] > now]
        return Report(
            received=tuple(sorted({load.request_id for load in loaded if load.is_async})),
            sent=tuple(sorted(sent)),
            invalid_block_ids=frozenset(self._failed_blocks(loaded)),
        )

    def next_end(self) -> int | None:
        """When the next transfer ends."""
        return min((entry[0] for entry in (*self._loads, *self._sends)), default=None)

    def _failed_blocks(self, loaded: list[Load]) -> Iterator[int]:
        """The failing block of each load, by its place in the first group's table, if it is still there."""
        for load in loaded:
            if load.failing_block is not None and load.request_id in self._scheduler.requests:
                table = self._scheduler.kv_cache_manager.get_block_ids(load.request_id)[0]
                yield from table[load.failing_block : load.failing_block + 1]
