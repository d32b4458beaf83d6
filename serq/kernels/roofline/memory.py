"""What a roofline knows of the KV cache: its model on its device leaves so much."""

from __future__ import annotations

from dataclasses import dataclass, replace

from serq.kernels.catalogue.devices import Device
from serq.kernels.memory.budget import MemoryTerms, budget, gib, what_fits
from serq.kernels.registry import CacheRequest, ExecutorOptions, Setting
from serq.kernels.roofline.shard import Shard


@dataclass(frozen=True, slots=True)
class RooflineMemory:
    """The memory of one rank; ``terms`` hold all but what the engine says about its cache."""

    options: ExecutorOptions
    shard: Shard
    device: Device
    terms: MemoryTerms

    def num_gpu_blocks(self, request: CacheRequest) -> tuple[int, tuple[Setting, ...]]:
        """The blocks of the pool. Raises RunError where nothing is left, or a block holds no state."""
        terms = replace(
            self.terms,
            gpu_memory_utilization=request.gpu_memory_utilization,
            block_size=request.block_size,
        )
        found = budget(self.shard, self.device, terms)
        pages = found.pages
        if request.state_groups != pages.state_groups or request.block_size < (
            pages.block_size if pages.state_groups else 1
        ):
            groups = " ".join(["group mamba { mode none; }"] * pages.state_groups)
            block = f"`group full {{ block_size {pages.block_size}; }} {groups}`"
            what = "" if request.state_groups == pages.state_groups else f", not {request.state_groups}"
            raise self.options.fault(
                f"{self.shard.model.name} has {pages.state_groups} group(s) of linear layers{what}, and its "
                f"blocks have {pages.block_size} tokens at least, for `num_gpu_blocks` to be computed",
                f"write {block}, or `num_gpu_blocks …;`" if pages.state_groups else "leave out `group mamba`",
            )
        if found.num_gpu_blocks < 2:
            message = f"{gib(found.cache)} of {self.device.name} are left for the KV cache"
            raise self.options.fault(message, what_fits(self.shard, self.device, terms))
        shares = (found.total, *found.shares)
        settings = [Setting(f"memory: {share.name}", gib(share.size), share.source) for share in shares]
        block = f"{found.num_gpu_blocks} blocks of {found.block_bytes:,.0f} bytes"
        settings.append(Setting("memory: KV cache", gib(found.cache), f"the rest: {block}"))
        return found.num_gpu_blocks, tuple(settings)
