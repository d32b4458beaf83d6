"""What must hold in an engine core between any two turns. Numbers are those of docs/design/invariants.md."""

from __future__ import annotations

from collections import Counter

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.engine_core import EngineCore
from serq.runtime.vllm.request import Request, RequestStatus
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import SchedulerOutput


def check_core(core: EngineCore) -> None:
    """Raise AssertionError where an invariant is broken."""
    scheduler = core.scheduler
    check_places(scheduler)
    check_in_flight(core)
    check_references(scheduler)
    check_free_list(scheduler)
    check_prefix_cache(scheduler)
    check_slots(scheduler)
    for request in scheduler.requests.values():
        check_lengths(scheduler, request)


def check_places(scheduler: VllmScheduler) -> None:
    """I-1: a live request is in exactly one place, and its status says which."""
    places = Counter([*scheduler.running, *scheduler.waiting, *scheduler.skipped_waiting])
    assert all(count == 1 for count in places.values())
    assert set(places) == {request for request in scheduler.requests.values() if not request.is_finished}
    assert all(request.status is RequestStatus.RUNNING for request in scheduler.running)
    waits = {RequestStatus.WAITING, RequestStatus.PREEMPTED, RequestStatus.WAITING_FOR_REMOTE_KVS}
    assert all(request.status in waits for request in [*scheduler.waiting, *scheduler.skipped_waiting])
    assert len(scheduler.running) <= scheduler.config.max_num_seqs


def check_in_flight(core: EngineCore) -> None:
    """I-2: tokens in flight are the shares of the steps in flight; nothing unknown is computed but drafts."""
    shares: Counter[Request] = Counter()
    drafts: Counter[Request] = Counter()
    for step in core.in_flight:
        for share in step.scheduled.values():
            shares[share.request] += share.num_tokens
            drafts[share.request] += share.num_spec_tokens
    for request in core.scheduler.requests.values():
        assert request.num_in_flight_tokens == shares[request], request
        known = request.num_tokens + (request.num_output_placeholders or drafts[request])
        assert 0 <= request.num_computed_tokens <= known or request.is_finished, request
    assert len(core.in_flight) <= core.scheduler.config.max_concurrent_batches


def check_references(scheduler: VllmScheduler) -> None:
    """I-3: a block's reference count is the number of tables, waiting frees and pins that name it."""
    manager = scheduler.kv_cache_manager
    named: Counter[KVCacheBlock] = Counter()
    for group in manager.managers:
        assert not group.pending_copies
        assert set(group.block_tables) <= set(scheduler.requests)
        for table in group.block_tables.values():
            named.update(block for block in table if not block.is_null)
    for _, blocks in scheduler.freer._waiting:
        named.update(block for block in blocks if not block.is_null)
    for pins in manager._tail_pins.values():
        named.update(pins)
    for block in manager.block_pool.blocks[1:]:
        assert block.ref_cnt == named[block], block


def check_free_list(scheduler: VllmScheduler) -> None:
    """I-4: the free blocks are those without a reference; allocated + free = total."""
    pool = scheduler.kv_cache_manager.block_pool
    free = pool.free_block_ids
    assert sorted(free) == [block.block_id for block in pool.blocks[1:] if block.ref_cnt == 0]
    held = sum(block.ref_cnt > 0 for block in pool.blocks[1:])
    assert held + pool.num_free_blocks == pool.num_gpu_blocks - 1


def check_prefix_cache(scheduler: VllmScheduler) -> None:
    """I-5: cache and blocks name each other, and a request's published blocks hold its own prefix."""
    manager = scheduler.kv_cache_manager
    pool = manager.block_pool
    entries = set()
    for group_id, cache in enumerate(pool._caches):
        for key, first in cache._first.items():
            copies = [first, *cache._copies.get(key, ())]
            assert len(set(copies)) == len(copies)
            entries.update((group_id, key, block.block_id) for block in copies)
        assert set(cache._copies) <= set(cache._first)
    assert entries == {(block.group_id, key, block.block_id) for block in pool.blocks for key in block.keys}
    for group in manager.managers:
        stride = group.block_size // group.hash_block_size
        for request_id, table in group.block_tables.items():
            hashes = scheduler.requests[request_id].block_hashes
            for index, block in enumerate(table[: group.num_cached_blocks.get(request_id, 0)]):
                if block.keys:
                    assert hashes[(index + 1) * stride - 1] in block.keys


def check_slots(scheduler: VllmScheduler) -> None:
    """I-6: every computed token of a running request has a slot in each full-attention group."""
    limit = scheduler.config.max_model_len
    for group in scheduler.kv_cache_manager.managers:
        if group.is_full_attention:
            for request in scheduler.running:
                slots = len(group.block_tables[request.request_id]) * group.block_size
                assert slots >= min(request.num_computed_tokens, limit), request


def check_lengths(scheduler: VllmScheduler, request: Request) -> None:
    """I-7: counters stay within what is known: lengths, limits, drafts only where they can be."""
    assert request.num_tokens == request.num_prompt_tokens + request.num_output_tokens
    assert request.num_tokens == request.tokens.length
    assert request.num_output_tokens <= request.stop_rule.max_tokens
    assert request.num_output_placeholders >= 0
    assert request.num_spec_tokens >= 0
    assert 0 <= request.num_stale_output_tokens <= request.num_in_flight_tokens or request.is_finished
    if request.output.end_at is not None and not request.is_finished:
        assert request.num_output_tokens <= max(request.output.end_at, request.stop_rule.min_tokens - 1) or (
            request.output.end_at + 1 < request.stop_rule.min_tokens
        )
    if not scheduler.config.async_scheduling:
        assert request.num_output_placeholders == 0


def check_step(scheduler: VllmScheduler, step: SchedulerOutput) -> None:
    """I-8: a step respects its limits: budget, requests, positive shares, the longest sequence."""
    config = scheduler.config
    shares = step.scheduled
    assert step.total_num_scheduled_tokens == sum(share.num_tokens for share in shares.values())
    assert step.total_num_scheduled_tokens <= config.token_budget
    assert len(shares) <= len(scheduler.running) <= config.max_num_seqs
    assert not set(step.preempted_req_ids) & set(shares)
    kinds = [share.kind == "running" for share in shares.values()]
    assert kinds == sorted(kinds, reverse=True)
    for request_id, share in shares.items():
        assert share.request.request_id == request_id
        assert share.num_tokens >= 1
        assert share.kind != "running" or share.num_tokens > share.num_spec_tokens >= 0
        threshold = config.long_prefill_token_threshold
        assert not threshold or share.num_tokens <= threshold
    if step.preempted_req_ids:
        assert all(kinds)
