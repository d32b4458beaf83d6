"""Scenario files: an engine, what its steps cost, and what happens to it (oracle README, "Scenario").

Times and costs are integer microseconds, lengths tokens.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from serq.errors import DataError
from serq.runtime.vllm.config import (
    EngineConfig,
    FailurePolicy,
    KVRole,
    KVTransferConfig,
    Policy,
    SpeculativeConfig,
)
from serq.runtime.vllm.kv_cache_spec import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheGroup,
    KVCacheSpec,
    MambaMode,
    MambaSpec,
    SlidingWindowSpec,
)

Count = Annotated[int, msgspec.Meta(ge=0)]
Size = Annotated[int, msgspec.Meta(ge=1)]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a scenario; a field nobody knows is an error."""


class Group(_Part, frozen=True):
    """A KV cache group."""

    kind: Literal["full", "sliding", "chunked_local", "mamba"]
    block_size: Size | None = None
    window: Size | None = None
    chunk: Size | None = None
    mode: MambaMode | None = None
    num_speculative_blocks: Count = 0
    name: str = ""
    eagle: bool = False

    def build(self, max_model_len: int) -> KVCacheGroup:
        """The group as the engine knows it. Raises ValueError if a field its kind needs is missing."""
        return KVCacheGroup(self._spec(max_model_len), self.eagle)

    def _spec(self, max_model_len: int) -> KVCacheSpec:
        size = 16 if self.block_size is None else self.block_size
        if self.kind == "full":
            return FullAttentionSpec(size)
        if self.kind == "sliding":
            return SlidingWindowSpec(size, _needed(self.window, "a sliding group needs 'window'"))
        if self.kind == "chunked_local":
            return ChunkedLocalAttentionSpec(size, _needed(self.chunk, "a chunked_local group needs 'chunk'"))
        if self.mode is None:
            raise ValueError("a mamba group needs 'mode'")
        state_size = max_model_len if self.block_size is None else self.block_size
        return MambaSpec(state_size, self.mode, self.num_speculative_blocks)


def _needed(value: int | None, message: str) -> int:
    if value is None:
        raise ValueError(message)
    return value


class Engine(_Part, frozen=True):
    """The flags of the engine, under vLLM's names."""

    max_num_batched_tokens: Size = 2048
    max_num_scheduled_tokens: Size | None = None
    max_num_seqs: Size = 128
    max_model_len: Size = 4096
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: Count = 0
    policy: Policy = "fcfs"
    async_scheduling: bool = False
    reserve_full_isl: bool = True
    watermark: float = 0.0
    enable_prefix_caching: bool = True
    num_gpu_blocks: Size = 1024
    prefix_match_unit: Size | None = None
    retention_interval: Count | None = None
    prefill_schedule_interval: Size = 1
    v2_model_runner: bool = False
    groups: tuple[Group, ...] = (Group("full"),)


class Spec(_Part, frozen=True):
    """Speculative decoding and what the script says about acceptance."""

    method: str
    k: Size
    accept: tuple[Count, ...] = (0,)
    draft_len: tuple[Count, ...] | None = None
    per_batch_size: tuple[tuple[int, int, int], ...] | None = None


class Connector(_Part, frozen=True):
    """The KV connector."""

    name: Literal["scripted", "DecodeBenchConnector"]
    role: KVRole = "kv_both"
    load_failure_policy: FailurePolicy = "recompute"


class Cost(_Part, frozen=True):
    """What a step costs, in microseconds; an empty one costs nothing."""

    base: Count = 0
    per_token: Count = 0
    per_seq: Count = 0


class Stop(_Part, frozen=True):
    """How the output ends: at index ``at`` a stop token, or from there on one token repeated."""

    kind: Literal["eos", "token", "repeat"]
    at: Count
    count: Count = 0


class Continues(_Part, frozen=True):
    """The prompt begins with the first ``len`` tokens of another request's prompt and output."""

    id: str
    len: Count


class KV(_Part, frozen=True):
    """What the scripted connector does for a request."""

    ext: Count = 0
    is_async: bool = msgspec.field(default=False, name="async")
    delay: Count = 0
    undecided: Count = 0
    once: bool = False
    fail: Count | None = None
    send: Count | None = None


class RequestLine(_Part, frozen=True):
    """A request."""

    id: str
    t: Count
    prompt: Size
    max_tokens: Size
    priority: int = 0
    prefix_group: int | None = None
    prefix_len: Count = 0
    continues: Continues | None = None
    stop: Stop | None = None
    min_tokens: Count = 0
    skip_cache: bool = False
    kv: KV | None = None
    accept: tuple[Count, ...] | None = None


class Event(_Part, frozen=True):
    """Something that happens to the engine besides arrivals."""

    t: Count
    op: Literal["abort", "reset_prefix_cache", "pause"]
    id: str | None = None
    running: bool = False
    state: Literal["UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"] | None = None


class TraceOptions(_Part, frozen=True):
    """What a trace holds."""

    level: Literal["full", "digest"] = "full"
    blocks: bool = False
    queues: bool = False


class Scenario(_Part, frozen=True):
    """A whole scenario."""

    cost: Cost
    requests: tuple[RequestLine, ...]
    name: str = ""
    note: str = ""
    engine: Engine = Engine()
    spec: Spec | None = None
    kv_connector: Connector | None = None
    events: tuple[Event, ...] = ()
    trace: TraceOptions = TraceOptions()

    def engine_config(self) -> EngineConfig:
        """The engine's configuration. Raises ValueError where vLLM would refuse it."""
        flags: dict[str, Any] = {
            name: getattr(self.engine, name)
            for name in Engine.__struct_fields__
            if name not in ("groups", "reserve_full_isl", "v2_model_runner")
        }
        spec, kv = self.spec, self.kv_connector
        return EngineConfig(
            **flags,
            scheduler_reserve_full_isl=self.engine.reserve_full_isl,
            groups=tuple(group.build(self.engine.max_model_len) for group in self.engine.groups),
            speculative=SpeculativeConfig(spec.method, spec.k, spec.per_batch_size) if spec else None,
            kv_transfer=KVTransferConfig(kv.role, kv.load_failure_policy) if kv else None,
        )

    def check(self) -> None:
        """Raise ValueError for what cannot be meant."""
        self.engine_config()
        ids = [line.id for line in self.requests]
        if len(set(ids)) != len(ids):
            raise ValueError("two requests have the same id")
        for line in self.requests:
            _check_request(line, set(ids), self.engine.max_model_len)
        for event in self.events:
            if event.op == "abort" and event.id not in ids:
                raise ValueError(f"abort of {event.id!r}, which is no request")
            if event.op == "pause" and event.state is None:
                raise ValueError("a pause needs 'state'")
        if self.spec is not None and not (self.spec.accept and self.spec.draft_len != ()):
            raise ValueError("'accept' and 'draft_len' must not be empty")


def _check_request(line: RequestLine, ids: set[str], max_model_len: int) -> None:
    if line.prompt > max_model_len:
        raise ValueError(f"request {line.id!r}: vLLM refuses a prompt longer than max_model_len")
    if line.continues is not None and line.continues.id not in ids:
        raise ValueError(f"request {line.id!r} continues {line.continues.id!r}, which is no request")
    if line.accept == ():
        raise ValueError(f"request {line.id!r}: 'accept' must not be empty")


def parse_scenario(data: object, where: str) -> Scenario:
    """The scenario in decoded JSON ``data``. Raises DataError that names ``where`` and the field."""
    try:
        scenario = msgspec.convert(data, Scenario)
        scenario.check()
    except (msgspec.ValidationError, ValueError) as error:
        raise DataError(f"{where}: not a scenario: {error}") from error
    return scenario
