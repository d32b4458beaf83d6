"""A KV connector that answers from each request's ``kv`` script and moves no data.

vLLM loads it by its module path as it loads any connector of a user. The script of a request:
``ext`` leading tokens that the outside store holds; ``async`` whether they load while the request is
parked; ``delay`` microseconds from the start of the step to the end of the load; ``undecided`` how often
the answer is "not known yet"; ``once`` whether the copy can be used for one admission only; ``fail`` the
index of the block whose load fails; ``send`` microseconds for which the blocks are kept after the finish.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    SupportsHMA,
)


@dataclass(frozen=True, slots=True)
class Load:
    """A transfer into blocks that were just allocated."""

    request_id: str
    is_async: bool
    delay: int
    failing_block: int | None


@dataclass(frozen=True, slots=True)
class Send:
    """A transfer out of the blocks of a finished request."""

    request_id: str
    delay: int


class ScriptedConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """The scheduler's side of a connector (S-130 to S-135)."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        self._loaded: set[str] = set()
        self._lookups: Counter[str] = Counter()
        self._new_loads: list[Load] = []
        self._new_sends: list[Send] = []

    def take_loads(self) -> list[Load]:
        """The loads that the scheduler has committed to since the last call."""
        loads, self._new_loads = self._new_loads, []
        return loads

    def take_sends(self) -> list[Send]:
        """The sends that finished requests have begun since the last call."""
        sends, self._new_sends = self._new_sends, []
        return sends

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Tokens that the store holds beyond the local hit, and whether they load asynchronously."""
        script = request.kv_transfer_params or {}
        self._lookups[request.request_id] += 1
        if self._lookups[request.request_id] <= script.get("undecided", 0):
            return None, False
        if script.get("once") and request.request_id in self._loaded:
            return 0, False
        is_async = bool(script.get("async"))
        usable = request.num_tokens if is_async else request.num_tokens - 1
        beyond = max(0, min(script.get("ext", 0), usable) - num_computed_tokens)
        return beyond, is_async and beyond > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Blocks for the external tokens are allocated: the load begins."""
        if num_external_tokens == 0:
            return
        script = request.kv_transfer_params
        self._loaded.add(request.request_id)
        load = Load(request.request_id, bool(script.get("async")), script.get("delay", 0), script.get("fail"))
        self._new_loads.append(load)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        """No worker reads it."""
        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """Keep the blocks of a finished request if its script sends them somewhere."""
        delay = (request.kv_transfer_params or {}).get("send")
        if delay is None:
            return False, None
        self._new_sends.append(Send(request.request_id, delay))
        return True, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """The same for several KV cache groups."""
        return self.request_finished(request, block_ids[0])

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Never called: there is no worker."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Never called: there is no worker."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Never called: there is no worker."""

    def wait_for_save(self) -> None:
        """Never called: there is no worker."""
