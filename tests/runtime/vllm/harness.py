"""An engine core with a worker that does as it is told, for tests that look at single steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.engine_core import AddRequest, EngineCore, Launch, WaitUntil
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput
from serq.runtime.vllm.tokens import OutputScript, Piece, PrefixHasher


class Harness:
    """One engine; time is the number of the turn."""

    def __init__(
        self,
        *,
        scheduler_class: type[VllmScheduler] = VllmScheduler,
        connector: KVConnector | None = None,
        **flags: Any,
    ) -> None:
        self.config = EngineConfig(**flags)
        self.scheduler = scheduler_class(self.config, connector)
        self.core = EngineCore(self.scheduler)
        self.hasher = PrefixHasher(self.config.block_sizes[1])
        self.now = 0

    def request(
        self,
        name: str,
        prompt: int | list[Piece],
        max_tokens: int = 100,
        *,
        min_tokens: int = 0,
        repetition_count: int | None = None,
        end_at: int | None = None,
        repeat_at: int | None = None,
        **fields: Any,
    ) -> Request:
        """A request; a prompt given as a number is its own."""
        return Request(
            name,
            [(name, 0, prompt)] if isinstance(prompt, int) else prompt,
            StopRule(max_tokens, min_tokens, repetition_count),
            OutputScript(f"output of {name}", end_at=end_at, repeat_at=repeat_at),
            hasher=self.hasher,
            **{"arrival_time": self.now, **fields},
        )

    def add(self, name: str, prompt: int | list[Piece], max_tokens: int = 100, **fields: Any) -> Request:
        """Let a request arrive."""
        request = self.request(name, prompt, max_tokens, **fields)
        self.core.intake([AddRequest(request)])
        return request

    def launch(self) -> SchedulerOutput:
        """The step that must be launched now."""
        self.now += 1
        turn = self.core.turn(self.now)
        assert isinstance(turn, Launch), turn
        return turn.step

    def finish(
        self, accepted: Mapping[str, int] | None = None, drafts: int | None = None, **transfers: Any
    ) -> list[RequestOutput]:
        """Let the oldest step in flight run, with so many drafts accepted and made."""
        self.now += 1
        turn = self.core.turn(self.now)
        assert isinstance(turn, WaitUntil), turn
        sampled = {
            name: 1 + (accepted or {}).get(name, 0) if share.samples else 0
            for name, share in turn.step.scheduled.items()
        }
        made = self.config.num_spec_tokens if drafts is None else drafts
        num_drafts = {name: made if count else 0 for name, count in sampled.items()} if made else {}
        return self.core.finish(ModelOutput(sampled, num_drafts, **transfers), self.now)

    def step(self, **result: Any) -> dict[str, int]:
        """Launch and finish a step; its shares."""
        step = self.launch()
        self.finish(**result)
        return {name: share.num_tokens for name, share in step.scheduled.items()}

    def steps(self, count: int) -> list[dict[str, int]]:
        """The shares of the next ``count`` steps."""
        return [self.step() for _ in range(count)]

    def blocks(self, name: str, group: int = 0) -> list[int]:
        """The block table of a request."""
        return self.scheduler.kv_cache_manager.block_ids(name)[group]

    @property
    def free(self) -> list[int]:
        """The free list."""
        return self.scheduler.kv_cache_manager.block_pool.free_block_ids

    def names(self, where: Any) -> list[str]:
        """The ids in a queue or list."""
        return [request.request_id for request in where]
