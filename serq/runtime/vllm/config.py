"""What an engine is configured with, and what follows from it before the first request (S-002 to S-004)."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from serq.runtime.vllm.kv_cache_spec import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheGroup,
    MambaSpec,
    SlidingWindowSpec,
)

Policy = Literal["fcfs", "priority"]
KVRole = Literal["kv_producer", "kv_consumer", "kv_both"]
FailurePolicy = Literal["recompute", "fail"]

_EAGLE_METHODS = ("eagle", "eagle3", "mtp", "dflash", "dspark")
_LOOKAHEAD_METHODS = (*_EAGLE_METHODS, "draft_model")


class SpeculativeConfig(msgspec.Struct, frozen=True):
    """Speculative decoding: ``num_speculative_tokens`` drafts a step, or fewer by batch size (S-102)."""

    method: str
    num_speculative_tokens: int
    per_batch_size: tuple[tuple[int, int, int], ...] | None = None

    @property
    def uses_eagle(self) -> bool:
        """Whether drafts are made from the target's hidden states (S-004)."""
        return self.method in _EAGLE_METHODS

    @property
    def num_lookahead_tokens(self) -> int:
        """Slots kept for drafts beyond the share (S-004)."""
        if self.method not in _LOOKAHEAD_METHODS:
            return 0
        return self.num_speculative_tokens + (self.method == "dflash")

    @property
    def slots_for_drafting(self) -> int:
        """Slots a sequence costs in the drafter's batch, taken from the token budget (S-002)."""
        return 1 if self.method == "draft_model" else 0

    def drafts_by_batch_size(self, max_num_seqs: int) -> list[int] | None:
        """Drafts by number of scheduled requests (S-102): a gap carries on the value before it."""
        if not self.per_batch_size:
            return None
        table = [0] * (max_num_seqs + 1)
        ranges = sorted(self.per_batch_size)
        ends = [low for low, _, _ in ranges[1:]] + [max_num_seqs + 1]
        for (low, _, drafts), end in zip(ranges, ends, strict=True):
            for size in range(low, min(end, max_num_seqs + 1)):
                table[size] = min(drafts, self.num_speculative_tokens)
        return table

    def check(self) -> None:
        """Raise ValueError where vLLM would refuse the table or the number of drafts."""
        if self.num_speculative_tokens < 1:
            raise ValueError("num_speculative_tokens must be at least 1")
        end = 0
        for low, high, drafts in sorted(self.per_batch_size or ()):
            if low <= end or high < low or drafts < 0:
                raise ValueError(f"batch-size range [{low}, {high}, {drafts}] overlaps another or is empty")
            if end == 0 and low != 1:
                raise ValueError("the first batch-size range must begin at 1")
            end = high


class KVTransferConfig(msgspec.Struct, frozen=True):
    """What this engine is to its KV connector (S-104, S-106, S-134)."""

    role: KVRole = "kv_both"
    load_failure_policy: FailurePolicy = "recompute"

    @property
    def is_producer(self) -> bool:
        """Whether KV computed here is handed to others."""
        return self.role != "kv_consumer"

    @property
    def is_consumer(self) -> bool:
        """Whether KV computed elsewhere is loaded here."""
        return self.role != "kv_producer"


class EngineConfig(msgspec.Struct, frozen=True):
    """One engine, under vLLM's flag names. Lengths in tokens, ``watermark`` a share of the pool.

    Raises ValueError where vLLM's own configuration would refuse (S-003).
    """

    max_num_batched_tokens: int = 2048
    max_num_scheduled_tokens: int | None = None
    max_num_seqs: int = 128
    max_model_len: int = 4096
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: Policy = "fcfs"
    async_scheduling: bool = False
    scheduler_reserve_full_isl: bool = True
    watermark: float = 0.0
    enable_prefix_caching: bool = True
    num_gpu_blocks: int = 1024
    prefix_match_unit: int | None = None
    retention_interval: int | None = None
    prefill_schedule_interval: int = 1
    groups: tuple[KVCacheGroup, ...] = (KVCacheGroup(FullAttentionSpec(16)),)
    speculative: SpeculativeConfig | None = None
    kv_transfer: KVTransferConfig | None = None

    def __post_init__(self) -> None:
        self._check_lengths()
        self._check_cache()
        if self.speculative is not None:
            self.speculative.check()

    def _check_lengths(self) -> None:
        lengths = {
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": self.max_num_seqs,
            "max_model_len": self.max_model_len,
            "num_gpu_blocks": self.num_gpu_blocks,
            "prefill_schedule_interval": self.prefill_schedule_interval,
        }
        for name, value in lengths.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.token_budget < 1:
            raise ValueError(f"no token can be scheduled: the budget of a step is {self.token_budget}")
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError("without chunked prefill max_num_batched_tokens must reach max_model_len")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be at least max_num_seqs")
        if self.long_prefill_token_threshold > self.max_model_len:
            raise ValueError("long_prefill_token_threshold must not exceed max_model_len")

    def _check_cache(self) -> None:
        if not self.groups:
            raise ValueError("an engine needs at least one KV cache group")
        if any(group.spec.block_size < 1 for group in self.groups):
            raise ValueError("a block holds at least one token")
        if any(isinstance(g.spec, MambaSpec) and g.spec.num_speculative_blocks < 0 for g in self.groups):
            raise ValueError("num_speculative_blocks must not be negative")
        if self.watermark < 0:
            raise ValueError("watermark must not be negative")
        scheduler_block_size, hash_block_size = self.block_sizes
        if self.enable_prefix_caching and any(g.spec.block_size % hash_block_size for g in self.groups):
            raise ValueError(f"the hash block size {hash_block_size} must divide every group's block size")
        if self.enable_prefix_caching:
            self._check_lookup()
        if self.retention_interval is not None:
            if not any(isinstance(group.spec, SlidingWindowSpec | MambaSpec) for group in self.groups):
                raise ValueError("retention_interval needs a sliding-window or mamba group")
            if self.retention_interval < 0 or self.retention_interval % scheduler_block_size:
                raise ValueError(f"retention_interval must be a multiple of {scheduler_block_size} tokens")

    def _check_lookup(self) -> None:
        """What a lookup across groups can do (S-076, S-126)."""
        for group in self.groups:
            if isinstance(group.spec, ChunkedLocalAttentionSpec):
                if group.spec.block_size != self.hit_alignment:
                    raise ValueError("chunked local attention cannot be cached beside other block sizes")
                if group.eagle or (self.uses_eagle and not any(other.eagle for other in self.groups)):
                    raise ValueError("chunked local attention cannot be cached for eagle-like drafts")
            if isinstance(group.spec, SlidingWindowSpec) and self.hit_alignment % group.spec.block_size:
                raise ValueError("a sliding window cannot be cached where hits may end inside a block")

    @property
    def hit_alignment(self) -> int:
        """Prefix hits are multiples of so many tokens (S-078, S-126)."""
        scheduler_block_size, hash_block_size = self.block_sizes
        return hash_block_size if self.fine_grained_hits else scheduler_block_size

    @property
    def token_budget(self) -> int:
        """Tokens a step may compute (S-002)."""
        if self.max_num_scheduled_tokens is not None:
            return self.max_num_scheduled_tokens
        slots = 0 if self.speculative is None else self.speculative.slots_for_drafting
        return self.max_num_batched_tokens - slots * self.max_num_seqs

    @property
    def num_spec_tokens(self) -> int:
        """Drafts a request gets, 0 without speculation."""
        return 0 if self.speculative is None else self.speculative.num_speculative_tokens

    @property
    def num_lookahead_tokens(self) -> int:
        """Slots allocated beyond the share (S-004)."""
        return 0 if self.speculative is None else self.speculative.num_lookahead_tokens

    @property
    def uses_eagle(self) -> bool:
        """Whether speculation is of the eagle kind (S-004)."""
        return self.speculative is not None and self.speculative.uses_eagle

    @property
    def cache_block_size(self) -> int:
        """The block size of the cache configuration: the smallest of the groups (S-110)."""
        return min(group.spec.block_size for group in self.groups)

    @property
    def block_sizes(self) -> tuple[int, int]:
        """(scheduler block size, hash block size) in tokens (S-110)."""
        sizes = [group.spec.block_size for group in self.groups]
        scheduler_block_size = math.lcm(*sizes)
        hashing = self.enable_prefix_caching or self.kv_transfer is not None
        odd_mamba = any(
            isinstance(group.spec, MambaSpec) and group.spec.block_size != self.cache_block_size
            for group in self.groups
        )
        if len(sizes) == 1 or not hashing or odd_mamba:
            return scheduler_block_size, scheduler_block_size
        return scheduler_block_size, self.prefix_match_unit or math.gcd(*sizes)

    @property
    def max_concurrent_batches(self) -> int:
        """Steps that may be in flight at once (S-103)."""
        return 2 if self.async_scheduling else 1

    @property
    def max_in_flight_tokens(self) -> int:
        """Most tokens scheduled and not yet processed (S-089)."""
        return self.max_concurrent_batches * self.max_num_batched_tokens

    @property
    def watermark_blocks(self) -> int:
        """Blocks an admission must leave free while something runs (S-090)."""
        return int(self.watermark * self.num_gpu_blocks)

    @property
    def has_mamba(self) -> bool:
        """Whether some group keeps a recurrent state."""
        return any(isinstance(group.spec, MambaSpec) for group in self.groups)

    @property
    def aligns_mamba(self) -> bool:
        """Whether shares are split at block boundaries (S-120): the first mamba group decides."""
        modes = [group.spec.mode for group in self.groups if isinstance(group.spec, MambaSpec)]
        return bool(modes) and modes[0] == "align"

    @property
    def fine_grained_hits(self) -> bool:
        """Whether a hit may end inside a block (S-126)."""
        _, hash_block_size = self.block_sizes
        return (
            self.enable_prefix_caching
            and len(self.groups) > 1
            and any(
                isinstance(group.spec, MambaSpec)
                and group.spec.mode == "align"
                and group.spec.block_size > hash_block_size
                for group in self.groups
            )
        )
