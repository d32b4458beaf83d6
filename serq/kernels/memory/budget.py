"""From the memory of a device to the blocks of its KV cache, every figure with its source.

vLLM takes ``gpu_memory_utilization`` of the device, loads the weights, measures the peak of a profiling step
of ``max_num_batched_tokens`` tokens, and gives the rest to the cache. Weights and cache follow from shapes;
the peak and what runtime and graphs take are estimates, and every one of them can be replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from serq.kernels.catalogue.devices import GIB, Device
from serq.kernels.memory.cache_pages import CachePages
from serq.kernels.roofline.shard import Shard

MIB: Final = 2**20
GRAPHS: Final = 320 * MIB
RUNTIME: Final = 410 * MIB
_RESIDUAL: Final = (
    "estimate: together 0.71 GiB, what one engine took beyond weights and activations "
    "(vLLM 0.19, Llama-3.1-8B on an RTX 4090)"
)


class Share(NamedTuple):
    """One part of the memory of a rank, and how its figure was found."""

    name: str
    size: float
    source: str


@dataclass(frozen=True, slots=True)
class MemoryTerms:
    """What decides the division of memory, beside model and device; bytes, None: the estimate."""

    gpu_memory_utilization: float = 0.9
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    block_size: int | None = None
    """Tokens of a block of full attention; None: what the engine chooses."""
    speculative_tokens: int = 0
    weight_bytes: float = 2.0
    """Bytes of a weight of linear layers and experts; vocabulary tables keep 16 bits."""
    cache_bytes: float = 2.0
    memory_bytes: float | None = None
    activation_bytes: float | None = None
    graph_bytes: float | None = None
    runtime_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How the memory of one rank is divided. ``cache`` is negative where the rest alone is too much."""

    total: Share
    shares: tuple[Share, ...]
    cache: float
    pages: CachePages
    block_size: int

    @property
    def block_bytes(self) -> float:
        """Bytes of a block over all layers that share its id."""
        return self.pages.page_bytes(self.block_size) * self.pages.layers_per_group

    @property
    def num_gpu_blocks(self) -> int:
        """Blocks of the pool, the null block included; 0 where there is no room."""
        return max(0, int(self.cache // self.block_bytes))

    @property
    def kv_tokens(self) -> int:
        """Tokens that the cache holds, as vLLM logs them: blocks are shared out evenly among the groups."""
        return self.num_gpu_blocks // (self.pages.full_groups + self.pages.state_groups) * self.block_size

    def requests(self, tokens: int) -> float:
        """How many requests of ``tokens`` tokens the cache holds at once."""
        return (self.num_gpu_blocks - 1) / self.pages.blocks_of_request(tokens, self.block_size)


def budget(shard: Shard, device: Device, terms: MemoryTerms) -> MemoryBudget:
    """The division of one rank's memory."""
    pages = CachePages(shard, terms.cache_bytes, terms.speculative_tokens, device.family != "NVIDIA")
    told = terms.memory_bytes
    memory = device.memory if told is None else told
    total = Share("device", memory, device.source if told is None else "given")
    usable = memory * terms.gpu_memory_utilization
    shares = (
        Share("left to others", memory - usable, f"gpu_memory_utilization {terms.gpu_memory_utilization:g}"),
        Share("weights", weights_of(shard, terms), f"{shard.parameters:.4g} parameters a rank"),
        _given("activations", terms.activation_bytes, activations_of(shard, terms), _PEAK),
        _given("graphs", terms.graph_bytes, GRAPHS, _RESIDUAL),
        _given("runtime", terms.runtime_bytes, RUNTIME, _RESIDUAL),
    )
    cache = memory - sum(share.size for share in shares)
    return MemoryBudget(total, shares, cache, pages, terms.block_size or pages.block_size)


def weights_of(shard: Shard, terms: MemoryTerms) -> float:
    """Bytes of the weights of a rank."""
    model = shard.model
    tables = model.embedding_weights * (1 if model.tied_embeddings else 2) / shard.tensor_parallel_size
    return (shard.parameters - tables) * terms.weight_bytes + tables * 2.0


_PEAK: Final = "estimate: widest layer at max_num_batched_tokens, and two fp32 rows of logits a request"


def activations_of(shard: Shard, terms: MemoryTerms) -> float:
    """The peak of the profiling step: residual and norm, the widest layer's outputs, and the logits."""
    model, ranks = shard.model, shard.tensor_parallel_size
    widths = [
        3 * model.intermediate_size / ranks,
        shard.attention_weights / model.hidden_size,
        model.gdn_projection_width / ranks,
        3 * model.experts_per_token * model.expert_intermediate_size / shard.expert_ranks,
    ]
    layers = terms.max_num_batched_tokens * (2 * model.hidden_size + max(widths)) * 2.0
    logits = terms.max_num_seqs * model.vocab_size * 4.0 * 2
    return layers + logits


def what_fits(shard: Shard, device: Device, terms: MemoryTerms) -> str:
    """The help line where nothing is left for the cache: ranks, weights or utilisation that would do."""
    found = []
    for ranks in range(shard.tensor_parallel_size + 1, shard.model.num_heads + 1):
        other = Shard(shard.model, ranks, shard.data_parallel_size, shard.expert_parallel)
        if other.fault() is None and budget(other, device, terms).num_gpu_blocks > 1:
            found.append(f"`tensor_parallel_size {ranks}`")
            break
    whole = budget(shard, device, terms)
    needed = (sum(s.size for s in whole.shares[1:]) + 2 * whole.block_bytes) / whole.total.size
    if needed <= 0.99:
        found.append(f"`gpu_memory_utilization` above {needed:.3f}")
    return " or ".join(found) + " leaves room" if found else "no number of these devices holds the model"


def _given(name: str, told: float | None, estimate: float, source: str) -> Share:
    return Share(name, estimate, source) if told is None else Share(name, told, "given")


def gib(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / GIB:.2f} GiB"
