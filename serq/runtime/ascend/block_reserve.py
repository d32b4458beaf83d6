"""How many KV blocks the running requests are about to need (V-027, V-028)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from serq.runtime.vllm.request import Request


class RunningBlockReserver:
    """Blocks to leave free for the running requests' round after the next one.

    The estimate is kept while the number of running requests is the same, extended by the last of them when
    it grew by one, and made anew otherwise and in every step (V-028). ``running`` tells who runs now.
    """

    def __init__(
        self,
        running: Callable[[], Sequence[Request]],
        *,
        block_size: int,
        max_num_scheduled_tokens: int,
        num_lookahead_tokens: int,
        margin_blocks: int,
        max_blocks: int,
    ) -> None:
        self._running = running
        self._block_size = block_size
        self._max_num_scheduled_tokens = max_num_scheduled_tokens
        self._num_lookahead_tokens = num_lookahead_tokens
        self._margin_blocks = margin_blocks
        self._max_blocks = max_blocks
        self._counted: int | None = None
        self._blocks = 0

    def invalidate(self) -> None:
        """Forget the estimate: a step begins."""
        self._counted = None

    def predict(self) -> int:
        """Blocks to reserve: what the running requests need and the margin, at most the maximum (V-027)."""
        running = self._running()
        count = len(running)
        if self._counted is not None and count == self._counted + 1:
            self._blocks += self._next_blocks(running[-1])
        elif count != self._counted:
            self._blocks = sum(self._next_blocks(request) for request in running)
        self._counted = count
        return min(self._blocks + self._margin_blocks, self._max_blocks)

    def _next_blocks(self, request: Request) -> int:
        """New blocks of the round after this one."""
        position = request.num_computed_tokens
        position += self._share(request, position)
        free_slots = -position % self._block_size
        missing = self._share(request, position) - free_slots
        return -(-missing // self._block_size) if missing > 0 else 0

    def _share(self, request: Request, position: int) -> int:
        """Tokens of one round that begins at ``position``."""
        remaining = request.num_prompt_tokens - position
        if remaining > 0:
            return min(remaining, self._max_num_scheduled_tokens)
        return 1 + self._num_lookahead_tokens
