"""The scheduler's half of an engine's `kv_connector`: what can be fetched, offloaded, or is to be kept.

It answers as vLLM's connectors for disaggregated prefill do: a prompt computed elsewhere is loaded once, all
of it that is not cached here, while the request is parked (V-043, S-133); the engine that computed it keeps
the blocks until they were fetched (S-135). Beside that it keeps preempted requests' KV in host memory for the
recompute scheduler (V-045).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from serq.runtime.ascend.cpu_offload import CPUOffloadConnector
from serq.runtime.serving.sent_request import SentRequest, ServedRequest
from serq.runtime.vllm.request import Request, RequestStatus


@dataclass(slots=True)
class Transfer:
    """A movement of the KV of tokens ``start`` to ``end - 1`` that the scheduler ordered.

    `fetch`: from the engine of ``source``; `store` and `restore`: to and from this engine's host memory.
    """

    kind: Literal["fetch", "store", "restore"]
    client: SentRequest
    start: int
    end: int
    source: SentRequest | None = None
    block_ids: list[int] = field(default_factory=list)
    failed: bool = False


def client_of(request: Request) -> SentRequest:
    """Who sent a request of a program."""
    assert isinstance(request, ServedRequest)
    return request.client


class EngineConnector:
    """``ordered`` are the transfers that begin with the step just formed.

    ``on_kept`` hears of a finished request whose blocks stay, ``on_unwanted`` of one, of another engine, that
    will not be fetched any more, ``on_asked`` whether an offload was accepted. ``offload_blocks`` is the room
    for offloads.
    """

    def __init__(self, *, offload_blocks: int, block_size: int, produces: bool) -> None:
        self.offload = CPUOffloadConnector(offload_blocks + 1, block_size)
        self.ordered: list[Transfer] = []
        self.on_kept: Callable[[SentRequest], None] = lambda sent: None
        self.on_unwanted: Callable[[SentRequest], None] = lambda sent: None
        self.on_asked: Callable[[bool], None] = lambda accepted: None
        self._produces = produces

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """What was offloaded of ``request``, else what is left of the prompt that another engine keeps."""
        if self.offload.holds(request):
            return self.offload.get_num_new_matched_tokens(request, num_computed_tokens)
        source = client_of(request).source
        if source is None or not source.holds_kv:
            return 0, False
        tokens = request.num_prompt_tokens - num_computed_tokens
        return (tokens, True) if tokens > 0 else (0, False)

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Order the load that room was made for."""
        if num_external_tokens <= 0:
            return
        client = client_of(request)
        if self.offload.holds(request):
            self.offload.update_state_after_alloc(request, num_external_tokens)
            end = min(self.offload.stored_tokens(request), request.num_tokens)
            self.ordered.append(Transfer("restore", client, end - num_external_tokens, end))
            return
        end = request.num_prompt_tokens
        self.ordered.append(Transfer("fetch", client, end - num_external_tokens, end, client.source))
        client.source = None

    def update_state_before_preempt(
        self, request: Request, block_ids: Sequence[Sequence[int]], num_computed_tokens: int
    ) -> bool:
        """Offload ``request`` if there is room (V-038, V-045)."""
        accepted = self.offload.update_state_before_preempt(request, block_ids, num_computed_tokens)
        self.on_asked(accepted)
        if accepted:
            self.ordered.append(Transfer("store", client_of(request), 0, num_computed_tokens))
        return accepted

    def request_finished(self, request: Request) -> bool:
        """Whether the blocks of ``request`` stay: it ended by length, and the program fetches its KV (S-135).

        One that ends before its own prompt was fetched lets the other engine's blocks go.
        """
        client = client_of(request)
        self.offload.request_finished(request)
        if client.source is not None:
            self.on_unwanted(client.source)
            client.source = None
        offers = self._produces and client.offers_kv
        if not offers or request.status is not RequestStatus.FINISHED_LENGTH_CAPPED:
            return False
        client.holds_kv = True
        self.on_kept(client)
        return True
