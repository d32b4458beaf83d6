"""The scheduler's half of the scripted KV connector (oracle driver, ``oracle_connector.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from serq.oracle.scenario import KV
from serq.runtime.vllm.request import Request

_NO_SCRIPT = KV()


class Load(NamedTuple):
    """A load just ordered."""

    request_id: str
    is_async: bool
    delay: int
    failed_block: int | None


class ScriptedConnector:
    """Answers from a script per request and notes what is to be loaded and sent."""

    def __init__(self, scripts: Mapping[str, KV]) -> None:
        self._scripts = scripts
        self._asked: dict[str, int] = {}
        self._used: set[str] = set()
        self.new_loads: list[Load] = []
        self.new_sends: list[tuple[str, int]] = []

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """What the external store adds; None as often as the script is undecided."""
        script = self._scripts.get(request.request_id, _NO_SCRIPT)
        asked = self._asked[request.request_id] = self._asked.get(request.request_id, 0) + 1
        if asked <= script.undecided:
            return None, False
        if script.once and request.request_id in self._used:
            return 0, False
        limit = request.num_tokens if script.is_async else request.num_tokens - 1
        extra = max(0, min(script.ext, limit) - num_computed_tokens)
        return extra, script.is_async and extra > 0

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Order the load."""
        if num_external_tokens > 0:
            script = self._scripts[request.request_id]
            self._used.add(request.request_id)
            self.new_loads.append(Load(request.request_id, script.is_async, script.delay, script.fail))

    def request_finished(self, request: Request) -> bool:
        """Order the send, if the script has one: the blocks stay until it is done."""
        delay = self._scripts.get(request.request_id, _NO_SCRIPT).send
        if delay is None:
            return False
        self.new_sends.append((request.request_id, delay))
        return True
