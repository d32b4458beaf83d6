"""The scripted connectors of the recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serq.runtime.vllm.request import Request


class ScriptedConnector:
    """Answers as a script says and counts asynchronous loads down, step by step.

    ``remote`` holds per request id how many tokens can be loaded (``ext``), whether asynchronously, and after
    how many steps a load ends.
    """

    def __init__(self, remote: dict[str, dict[str, Any]]) -> None:
        self._remote = remote
        self._saved: dict[str, int] = {}
        self._asked: set[str] = set()
        self.pending: dict[str, int] = {}
        self.log: list[list[Any]] = []

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """What was saved of the request, else what the script offers once."""
        request_id = request.request_id
        load_async = True
        if request_id in self._saved:
            tokens = min(self._saved[request_id], request.num_tokens - 1)
        elif request_id in self._remote and request_id not in self._asked:
            tokens = min(self._remote[request_id]["ext"], request.num_tokens)
            load_async = bool(self._remote[request_id].get("async", True))
        else:
            tokens = 0
        external = tokens - num_computed_tokens
        return (external, load_async) if external > 0 else (0, False)

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """A load begins."""
        if num_external_tokens <= 0:
            return
        request_id = request.request_id
        if self._saved.pop(request_id, None) is not None:
            self.pending[request_id] = 1
            return
        self._asked.add(request_id)
        if self._remote[request_id].get("async", True):
            self.pending[request_id] = int(self._remote[request_id].get("done_after_steps", 1))

    def request_finished(self, request: Request) -> bool:
        """Nothing is kept."""
        return False

    def tick(self) -> list[str]:
        """A step has ended; the loads that ended with it."""
        for request_id in self.pending:
            self.pending[request_id] -= 1
        finished = [request_id for request_id, left in self.pending.items() if left <= 0]
        for request_id in finished:
            del self.pending[request_id]
        return finished

    def _note(self, request: Request, block_ids: Sequence[Sequence[int]], num_computed_tokens: int) -> None:
        blocks = sum(len(group) for group in block_ids)
        self.log.append(["ask", request.request_id, num_computed_tokens, blocks])


class RefusingConnector(ScriptedConnector):
    """Refuses to keep the KV of a request about to be preempted."""

    def update_state_before_preempt(
        self, request: Request, block_ids: Sequence[Sequence[int]], num_computed_tokens: int
    ) -> bool:
        """Refuse."""
        self._note(request, block_ids, num_computed_tokens)
        return False


class AcceptingConnector(ScriptedConnector):
    """Keeps the KV of every request about to be preempted."""

    def update_state_before_preempt(
        self, request: Request, block_ids: Sequence[Sequence[int]], num_computed_tokens: int
    ) -> bool:
        """Accept."""
        self._note(request, block_ids, num_computed_tokens)
        self._saved[request.request_id] = num_computed_tokens
        return True


CONNECTORS: dict[str, type[ScriptedConnector]] = {
    "absent": ScriptedConnector,
    "refuse": RefusingConnector,
    "accept": AcceptingConnector,
}
"""By the recordings' names; "absent" has no say in preemptions."""
