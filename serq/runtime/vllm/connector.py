"""What a scheduler asks its KV connector; a transfer itself is somebody else's work (S-130 to S-135)."""

from __future__ import annotations

from typing import Protocol

from serq.runtime.vllm.request import Request


class KVConnector(Protocol):
    """The scheduler's half of a KV connector."""

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Tokens that could be loaded beyond ``num_computed_tokens``, and whether asynchronously (S-130).

        None: not known yet, ask again.
        """

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Blocks were allocated for ``request``; ``num_external_tokens`` of its tokens are to be loaded."""

    def request_finished(self, request: Request) -> bool:
        """Whether the blocks of a finished ``request`` must be kept until they have been sent (S-135)."""


class DecodeBenchConnector:
    """Pretends that everything but the last token was loaded, once per request and at no cost."""

    def __init__(self) -> None:
        self._filled: set[str] = set()

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """All tokens but the last, on the first admission only."""
        if request.request_id in self._filled:
            return 0, False
        return max(0, request.num_tokens - num_computed_tokens - 1), False

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Remember that ``request`` had its fill."""
        if num_external_tokens:
            self._filled.add(request.request_id)

    def request_finished(self, request: Request) -> bool:
        """Nothing is sent."""
        self._filled.discard(request.request_id)
        return False
