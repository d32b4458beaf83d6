"""Extents and blocks: after the same calls both know the same, whatever was shared, copied and reused."""

from __future__ import annotations

from random import Random

import pytest

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.extents.manager import ExtentKVCacheManager
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.kv_cache_spec import FullAttentionSpec, KVCacheGroup
from serq.runtime.vllm.request import Hasher, Request, RequestStatus, StopRule
from serq.runtime.vllm.tokens import OutputScript, Piece, PrefixHasher

SIZE = 4


class Side:
    """One manager and its requests."""

    def __init__(self, manager: KVCacheManager, hasher: Hasher) -> None:
        self.manager = manager
        self.hasher = hasher
        self.requests: dict[str, Request] = {}

    def admit(self, name: str, prompt: list[Piece], share: int) -> tuple[object, ...]:
        request = self.requests.get(name) or Request(
            name, prompt, StopRule(1000), OutputScript(f"out {name}"), hasher=self.hasher
        )
        hit = self.manager.get_computed_blocks(request)
        share = min(share, request.num_tokens - hit.num_tokens)
        taken = self.manager.allocate_slots(request, share, hit=hit, full_sequence_must_fit=share % 2 == 0)
        if taken:
            request.status = RequestStatus.RUNNING
            request.num_computed_tokens = hit.num_tokens + share
        self.requests[name] = request
        return taken, hit.num_tokens, *self.state()

    def go_on(self, name: str, share: int) -> tuple[object, ...]:
        request = self.requests[name]
        if request.num_computed_tokens == request.num_tokens:
            request.append_output_token()
        share = min(share, request.num_tokens - request.num_computed_tokens)
        taken = self.manager.allocate_slots(request, share)
        if taken:
            request.num_computed_tokens += share
        return taken, *self.state()

    def free(self, name: str) -> tuple[object, ...]:
        request = self.requests[name]
        self.manager.free(request)
        request.num_computed_tokens = 0
        request.status = RequestStatus.PREEMPTED
        return self.state()

    def cached(self) -> list[int]:
        return [self.manager.cached_tokens(r.block_hashes, r.num_tokens) for r in self.requests.values()]

    def state(self) -> tuple[object, ...]:
        common = [self.manager.num_common_prefix_blocks(name) for name in self.requests]
        held = [self.manager.held_tokens(name) for name in self.requests]
        return self.manager.block_pool.num_free_blocks, held, common, self.cached()


def sides(blocks: int, *, caching: bool = True) -> tuple[Side, Side]:
    config = EngineConfig(
        num_gpu_blocks=blocks, groups=(KVCacheGroup(FullAttentionSpec(SIZE)),), enable_prefix_caching=caching
    )
    return (
        Side(KVCacheManager(config), PrefixHasher(SIZE)),
        Side(ExtentKVCacheManager(config), RunHasher(SIZE)),
    )


def random_prompt(random: Random, name: str) -> list[Piece]:
    """Begins with a text that others share, mostly on a block boundary; sometimes nothing else follows."""
    text, shared = random.randrange(3), random.choice([0, 4, 8, 8, 12, 16, 10, 3])
    own = random.choice([0, 0, 1, 4, 5, 9]) or int(not shared)
    return [(("text", text), 0, shared), (("own", name), 0, own)]


@pytest.mark.parametrize("seed", range(120))
def test_the_same_calls_have_the_same_results(seed: int) -> None:
    random = Random(seed)
    both = sides(random.choice([8, 12, 20, 40]), caching=seed % 8 != 0)
    running: list[str] = []
    prompts = {f"r{i}": random_prompt(random, f"r{i}") for i in range(random.choice([4, 9]))}
    for _ in range(400):
        waiting = [name for name in prompts if name not in running]
        kind = random.random()
        if kind < 0.3 and waiting:
            name, share = random.choice(waiting), random.choice([2, 5, 40])
            one, two = (side.admit(name, prompts[name], share) for side in both)
            running += [name] if one[0] else []
        elif kind < 0.8 and running:
            name, share = random.choice(running), random.choice([1, 1, 3])
            one, two = (side.go_on(name, share) for side in both)
        elif running:
            name = running.pop(random.randrange(len(running)))
            one, two = (side.free(name) for side in both)
            if random.random() < 0.3:
                for side in both:
                    del side.requests[name]
        else:
            continue
        assert one == two
    for name in running:
        assert both[0].free(name) == both[1].free(name)
    assert both[0].manager.reset_prefix_cache() and both[1].manager.reset_prefix_cache()
    assert both[0].state() == both[1].state()
