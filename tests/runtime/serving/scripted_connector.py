"""Recorded connector scripts behind a program's own `connector`: only the answers are scripted.

The script says what an outside store holds, how long each load takes and which block fails; everything else
is the program's: a load is work on the stage `wire`, it begins with its step, and a step reports its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from serq.oracle.scenario import KV, Scenario
from serq.runtime.serving import assembly, kv_worker
from serq.runtime.serving.engine_connector import EngineConnector, Transfer, client_of
from serq.runtime.serving.kv_worker import KVWorker
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.serving.transfer_link import TransferLink, TransferSize
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import DecodeBenchConnector, KVConnector
from serq.runtime.vllm.request import Request
from serq.runtime.vllm.scheduler_output import ModelOutput
from tests.runtime.serving.scenario_program import in_order

Scripts = dict[str, KV]
_NONE = KV()


class ScriptedAnswers(EngineConnector):
    """The scheduler's half: answers as the recorder's connector does (`serq.oracle.connector`)."""

    def __init__(self, scripts: Scripts) -> None:
        super().__init__(offload_blocks=0, block_size=16, produces=True)
        self.scripts = scripts
        self.failing_now: list[Transfer] = []
        self._asked: dict[str, int] = {}
        self._used: set[str] = set()

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        script = self.scripts.get(request.request_id, _NONE)
        asked = self._asked[request.request_id] = self._asked.get(request.request_id, 0) + 1
        if asked <= script.undecided:
            return None, False
        if script.once and request.request_id in self._used:
            return 0, False
        limit = request.num_tokens if script.is_async else request.num_tokens - 1
        extra = max(0, min(script.ext, limit) - num_computed_tokens)
        return extra, script.is_async and extra > 0

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        if num_external_tokens <= 0:
            return
        self._used.add(request.request_id)
        transfer = Transfer("fetch", client_of(request), 0, num_external_tokens)
        script = self.scripts[request.request_id]
        if script.is_async:
            self.ordered.append(transfer)
        elif script.fail is not None:
            self.failing_now.append(transfer)

    def request_finished(self, request: Request) -> bool:
        client = client_of(request)
        client.holds_kv = self.scripts.get(request.request_id, _NONE).send is not None
        if client.holds_kv:
            self.on_kept(client)
        return client.holds_kv


class ScriptedTransfers(KVWorker):
    """The worker's half: loads take the script's time, and the block that the script names fails."""

    def __init__(self, connector: EngineConnector, *rest: Any) -> None:
        super().__init__(connector, *rest)
        assert isinstance(connector, ScriptedAnswers) and isinstance(self.link, ScriptedLink)
        self._answers = connector
        self._loads: ScriptedLink = self.link
        self._sends: list[SentRequest] = []

    def _start(self, transfer: Transfer, size: TransferSize) -> None:
        script = self._answers.scripts[transfer.client.request.request_id]
        table = self._manager.block_ids(transfer.client.request.request_id)[0]
        transfer.block_ids = [] if script.fail is None else table[script.fail : script.fail + 1]
        self._loads.script = script
        super()._start(transfer, size)

    def report(self, output: ModelOutput) -> bool:
        """Sends begin with the report after the finish, and synchronous loads end with their step."""
        for sent in self._sends:
            delay = self._answers.scripts[sent.request.request_id].send
            assert delay is not None
            self.link.clock.at(self.link.clock.now + delay, self._sender(sent))
        self._sends.clear()
        anything = super().report(output)
        for transfer in self._answers.failing_now:
            request_id = transfer.client.request.request_id
            place = self._answers.scripts[request_id].fail
            assert place is not None
            table = self._manager.block_ids(request_id)[0]
            output.invalid_block_ids = {*output.invalid_block_ids, *table[place : place + 1]}
        self._answers.failing_now.clear()
        return anything

    def _keep(self, sent: SentRequest) -> None:
        self._sends.append(sent)

    def _sender(self, sent: SentRequest) -> Callable[[], None]:
        return lambda: self._release(sent)


class ScriptedLink(TransferLink):
    """Reads the script instead of the connector's expressions; `over` stays the program's."""

    script: KV

    def _value(self, option: str, size: TransferSize) -> float:
        if option == "work":
            return float(self.script.delay)
        return float(self.script.fail is not None) if option == "fail" else 0.0


def script_connector(scenario: Scenario, patch: pytest.MonkeyPatch) -> None:
    """Let the engines of the next run answer as ``scenario`` says."""
    declared = scenario.kv_connector
    if declared is None:
        return
    lines = enumerate(in_order(scenario))
    scripts = {f"{place:07d}": line.kv for place, line in lines if line.kv is not None}

    def connector(link: TransferLink, config: EngineConfig) -> KVConnector:
        return DecodeBenchConnector() if declared.name != "scripted" else ScriptedAnswers(scripts)

    patch.setattr(assembly, "_connector", connector)
    patch.setattr(kv_worker, "KVWorker", ScriptedTransfers)
    patch.setattr("serq.runtime.deployment.TransferLink", ScriptedLink)
