"""The connector that keeps preempted requests' KV in host memory, as its scheduler sees it (V-045, V-046)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serq.runtime.vllm.kv_cache_spec import ceil_div
from serq.runtime.vllm.request import Request


@dataclass(slots=True)
class StoredRequest:
    """What host memory holds of one request: ``num_tokens`` in ``num_blocks``, readable once ``stored``."""

    num_tokens: int
    num_blocks: int
    stored: bool = False
    loading: bool = False


class CPUOffloadConnector:
    """Host memory of ``num_cpu_blocks`` blocks, one of which is never used.

    The transfers themselves are somebody else's work: :meth:`take_transfers` tells which begin with the step
    just formed, :meth:`store_finished` and :meth:`load_finished` report their ends.
    """

    def __init__(self, num_cpu_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self.num_free_blocks = num_cpu_blocks - 1
        self._held: dict[str, StoredRequest] = {}
        self._stores: list[str] = []
        self._loads: list[str] = []

    def update_state_before_preempt(
        self, request: Request, block_ids: Sequence[Sequence[int]], num_computed_tokens: int
    ) -> bool:
        """Take over a request's KV if there is any and host memory has room for it."""
        blocks = ceil_div(num_computed_tokens, self._block_size)
        if num_computed_tokens <= 0 or not any(block_ids) or blocks > self.num_free_blocks:
            return False
        self.num_free_blocks -= blocks
        self._held[request.request_id] = StoredRequest(num_computed_tokens, blocks)
        self._stores.append(request.request_id)
        return True

    def holds(self, request: Request) -> bool:
        """Whether something of ``request`` is kept, stored already or not."""
        return request.request_id in self._held

    def stored_tokens(self, request: Request) -> int:
        """Tokens kept of ``request``, which must be held."""
        return self._held[request.request_id].num_tokens

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """The stored tokens beyond the local ones, as an asynchronous load; not known until stored."""
        held = self._held.get(request.request_id)
        if held is None or held.loading:
            return 0, False
        if not held.stored:
            return None, False
        tokens = min(held.num_tokens, request.num_tokens) - num_computed_tokens
        return (tokens, True) if tokens > 0 else (0, False)

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Begin the load that room was made for."""
        held = self._held.get(request.request_id)
        if held is not None and num_external_tokens > 0:
            held.loading = True
            self._loads.append(request.request_id)

    def request_finished(self, request: Request) -> bool:
        """Forget what is held of a request; its device blocks need not be kept."""
        self._release(request.request_id)
        return False

    def take_transfers(self) -> tuple[list[str], list[str]]:
        """Ids whose (stores, loads) begin with the step just formed."""
        stores, loads = self._stores, self._loads
        self._stores, self._loads = [], []
        return stores, loads

    def store_finished(self, request_id: str) -> None:
        """A request's KV is in host memory."""
        if request_id in self._held:
            self._held[request_id].stored = True

    def load_finished(self, request_id: str) -> None:
        """A request's KV is back on the device; its host blocks are free."""
        self._release(request_id)

    def _release(self, request_id: str) -> None:
        held = self._held.pop(request_id, None)
        if held is not None:
            self.num_free_blocks += held.num_blocks
