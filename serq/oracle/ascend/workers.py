"""The worker's half of a recorded step: which KV transfers end with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from serq.oracle.ascend.connectors import ScriptedConnector
from serq.oracle.ascend.schedulers import Connector
from serq.runtime.ascend.cpu_offload import CPUOffloadConnector


@dataclass(slots=True)
class Transfer:
    """A store or load under way, and the step ends until it is done."""

    request_ids: list[str]
    steps_left: int


class TransferWorker:
    """Counts transfers down, one step end at a time."""

    def __init__(self, connector: Connector | None, config: dict[str, Any]) -> None:
        self._connector = connector
        transfer = config.get("kv") or {}
        self._store_steps: int = transfer.get("store_steps", 1)
        self._load_steps: int = transfer.get("load_steps", 1)
        self._stores: list[Transfer] = []
        self._loads: list[Transfer] = []

    @property
    def busy(self) -> bool:
        """Whether a transfer is under way."""
        scripted = isinstance(self._connector, ScriptedConnector) and bool(self._connector.pending)
        return scripted or bool(self._stores or self._loads)

    def begin_step(self) -> tuple[list[str], list[str]]:
        """The (stores, loads) that begin with the step just formed."""
        if isinstance(self._connector, CPUOffloadConnector):
            return self._connector.take_transfers()
        return [], []

    def end_step(self, begun: tuple[list[str], list[str]]) -> list[str]:
        """The step that ``begun`` these transfers has ended: ids whose load is done."""
        if isinstance(self._connector, ScriptedConnector):
            return self._connector.tick()
        if self._connector is None:
            return []
        stores, loads = begun
        if stores:
            self._stores.append(Transfer(stores, self._store_steps))
        if loads:
            self._loads.append(Transfer(loads, self._load_steps))
        for request_id in _count_down(self._stores):
            self._connector.store_finished(request_id)
        loaded = _count_down(self._loads)
        for request_id in loaded:
            self._connector.load_finished(request_id)
        return loaded


def _count_down(transfers: list[Transfer]) -> list[str]:
    """One step less for each; ids of those done, which leave the list."""
    for transfer in transfers:
        transfer.steps_left -= 1
    done = [transfer for transfer in transfers if transfer.steps_left <= 0]
    transfers[:] = [transfer for transfer in transfers if transfer.steps_left > 0]
    return [request_id for transfer in done for request_id in transfer.request_ids]
