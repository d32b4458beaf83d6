"""Memory by hand: weights, pages and blocks of dense, expert and hybrid models on several devices."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from serq.errors import DataError
from serq.kernels.catalogue.devices import GIB, devices
from serq.kernels.catalogue.models import ModelShape, models
from serq.kernels.memory.budget import MIB, MemoryTerms, activations_of, budget, weights_of, what_fits
from serq.kernels.memory.cache_pages import CachePages
from serq.kernels.memory.engine_log import LoggedCache, read_log
from serq.kernels.roofline.shard import Shard
from tests.shared import shared


def pages(model: str, ranks: int = 1, **options: bool | int) -> CachePages:
    return CachePages(Shard(models()[model], ranks), **options)  # type: ignore[arg-type]


BARE = MemoryTerms(activation_bytes=0, graph_bytes=0, runtime_bytes=0, gpu_memory_utilization=0.5)
"""Half of the device for weights and cache, nothing for anything else."""


def test_a_dense_model_on_910b3() -> None:
    """Qwen3-8B: 36 layers, 8 KV heads of 128 at 2 bytes are 147,456 bytes a token, 18,874,368 a block of 128.

    8.190427136e9 parameters at 2 bytes; half of 64 GiB is 34,359,738,368 bytes.
    """
    found = budget(Shard(models()["Qwen3-8B"]), devices()["910B3"], BARE)
    cache = 34_359_738_368 - 2 * 8_190_427_136
    assert found.cache == cache
    assert found.block_size == 128 and found.block_bytes == 128 * 147_456
    assert found.num_gpu_blocks == cache // (128 * 147_456) == 952
    assert found.kv_tokens == 952 * 128
    assert found.requests(4096) == pytest.approx(951 / 32)


def test_tensor_parallel_ranks_share_heads_and_weights() -> None:
    """Qwen3-32B on four H100: 2 KV heads a rank, 64 layers: 65,536 bytes a token; blocks of 16 on CUDA."""
    shard = Shard(models()["Qwen3-32B"], 4)
    found = budget(shard, devices()["H100"], BARE)
    assert weights_of(shard, BARE) == 2 * 32_761_446_400 / 4
    assert found.block_bytes == 16 * 65_536
    cache = 80 * GIB / 2 - 2 * 32_761_446_400 / 4
    assert found.num_gpu_blocks == cache // (16 * 65_536)


def test_experts_are_shared_and_kv_heads_repeated() -> None:
    """Qwen3-30B-A3B on 8 ranks: 4 KV heads, so one each; experts are an eighth of 128 x 4,718,592 x 48."""
    shard = Shard(models()["Qwen3-30B-A3B"], 8)
    attention = 48 * 2048 * 128 * (2 * 4 + 2 * 1)
    experts, router = 48 * 128 * 3 * 2048 * 768 / 8, 48 * 2048 * 128 / 8
    tables = 2 * 151936 * 2048 / 8
    assert weights_of(shard, BARE) == 2 * (attention + experts + router + tables)
    assert CachePages(shard).token_bytes == 2 * 1 * 128 * 2
    halved = MemoryTerms(weight_bytes=1.0)
    assert weights_of(shard, halved) == attention + experts + router + 2 * tables


@pytest.mark.parametrize(
    ("model", "ranks", "block_size"),
    [
        ("Qwen3.5-0.8B", 1, 1024),
        ("Qwen3.5-4B", 1, 1024),
        ("Qwen3.5-9B", 1, 1024),
        ("Qwen3.5-27B", 1, 1536),
        ("Qwen3.5-35B-A3B", 1, 2048),
        ("Qwen3.5-397B-A17B", 1, 4096),
    ],
)
def test_hybrid_blocks_of_vllm_ascend(model: str, ranks: int, block_size: int) -> None:
    """As V-095 lists them."""
    assert pages(model, ranks).block_size == block_size


def test_a_hybrid_model_on_950() -> None:
    """Qwen3.5-27B: 16 full-attention layers and 48 linear ones, so groups of 16: one and three.

    A page is keys and values of 1536 tokens, 1536 x 4096 bytes, and the window of 3 x 10240 x 2; a state is
    48 x 128 x 128 x 4 bytes, half of the former. A request has 48 states and windows (151.0 + 2.95 MB).
    """
    found = budget(Shard(models()["Qwen3.5-27B"]), devices()["950PR_9589"], BARE)
    cache = found.pages
    assert cache.token_bytes == 4096 and cache.state_bytes == 3_145_728 and cache.convolution_bytes == 61_440
    assert cache.request_state_bytes == 48 * (3_145_728 + 61_440) == 153_944_064
    assert (cache.full_groups, cache.state_groups, cache.layers_per_group) == (1, 3, 16)
    page = 1536 * 4096 + 61_440
    assert found.block_bytes == 16 * page
    left = 64 * GIB - 2 * models()["Qwen3.5-27B"].parameters
    assert found.num_gpu_blocks == left // (16 * page)
    assert found.kv_tokens == found.num_gpu_blocks // 4 * 1536
    assert cache.blocks_of_request(32_768, 1536) == 22 + 3


def test_a_hybrid_model_on_cuda_has_the_smallest_page_that_holds_a_state() -> None:
    """3,207,168 bytes of state and window at 4096 a token are 783 tokens, 784 in steps of 16."""
    cache = pages("Qwen3.5-27B", ascend=False)
    assert cache.block_size == 784
    assert cache.page_bytes(784) == 784 * 4096


def test_drafts_lengthen_the_window() -> None:
    """V-094: 3 + 3 rows of 10240."""
    assert pages("Qwen3.5-27B", speculative_tokens=3).convolution_bytes == 6 * 10_240 * 2
    assert pages("Qwen3.5-397B-A17B", 8).convolution_bytes == 3 * 1536 * 2


def test_activations_by_hand() -> None:
    """Qwen3-8B: 2048 tokens of two residuals and three MLP rows, and 128 requests' logits twice in fp32."""
    shard = Shard(models()["Qwen3-8B"])
    expected = 2048 * (2 * 4096 + 3 * 12288) * 2 + 128 * 151936 * 4 * 2
    assert activations_of(shard, MemoryTerms()) == expected


def llama() -> ModelShape:
    """Llama-3.1-8B, as its configuration file says."""
    shape = models()["Qwen3-8B"]
    values = {name: getattr(shape, name) for name in shape.__slots__}
    values |= {"name": "Llama-3.1-8B", "num_layers": 32, "full_attention_layers": 32}
    return ModelShape(**(values | {"intermediate_size": 14336, "vocab_size": 128256}))


def test_an_engine_that_was_measured() -> None:
    """The RTX 4090 run of Llama-3.1-8B has 2588 blocks; what is estimated was taken from it."""
    meta = msgspec.json.decode(
        shared("data", "measured", "RTX4090", "Llama-3.1-8B", "run", "meta.json").read_bytes()
    )
    terms = MemoryTerms(
        memory_bytes=meta["hardware"]["device_total_memory_bytes"], max_num_seqs=256, block_size=16
    )
    found = budget(Shard(llama()), devices()["A100"], terms)
    assert found.num_gpu_blocks == pytest.approx(meta["kv_cache"]["num_gpu_blocks"], rel=0.01)


def test_figures_that_are_given_say_so() -> None:
    terms = MemoryTerms(
        memory_bytes=60 * GIB, activation_bytes=1 * GIB, graph_bytes=2 * GIB, runtime_bytes=3 * GIB
    )
    found = budget(Shard(models()["Qwen3-8B"]), devices()["910B3"], terms)
    sizes = {share.name: (share.size, share.source) for share in found.shares}
    assert sizes["graphs"] == (2 * GIB, "given") and sizes["activations"] == (1 * GIB, "given")
    assert found.total == ("device", 60 * GIB, "given")
    rest = 60 * GIB * 0.9 - 6 * GIB - 2 * 8_190_427_136
    assert found.cache == pytest.approx(rest)
    default = budget(Shard(models()["Qwen3-8B"]), devices()["910B3"], MemoryTerms())
    assert {share.name: share.size for share in default.shares}["graphs"] == 320 * MIB
    assert all(share.source for share in default.shares)


def test_no_room_says_what_would_do() -> None:
    """Weights 65.523e9, working room 0.512e9, graphs and runtime 0.765e9, two blocks 0.067e9 of 68.719e9."""
    shard, device = Shard(models()["Qwen3-32B"]), devices()["910B1"]
    assert budget(shard, device, MemoryTerms()).num_gpu_blocks == 0
    assert what_fits(shard, device, MemoryTerms()) == (
        "`tensor_parallel_size 2` or `gpu_memory_utilization` above 0.973 leaves room"
    )
    assert what_fits(Shard(models()["Qwen3.5-397B-A17B"]), devices()["310P"], MemoryTerms()) == (
        "no number of these devices holds the model"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU KV cache size: 41,408 tokens", LoggedCache(None, 41_408, None)),
        ("# GPU blocks: 2588, # CPU blocks: 0", LoggedCache(2588, None, None)),
        ("NPU KV cache size: 1,000 tokens\n# NPU blocks: 10", LoggedCache(10, 1000, None)),
        ("Setting attention block size to 1536 tokens to ensure\nGPU KV cache size: 3,072 tokens",
         LoggedCache(None, 3072, 1536)),
        ("num_gpu_blocks is: 7\nnum_gpu_blocks is: 9", LoggedCache(9, None, None)),
    ],
)  # fmt: skip
def test_engine_logs(tmp_path: Path, text: str, expected: LoggedCache) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(f"INFO 01-01 00:00:00 [core.py:1] {text}\n")
    assert read_log(log) == expected


def test_blocks_from_tokens() -> None:
    assert LoggedCache(None, 41_408, None).blocks(16) == 2588
    assert LoggedCache(None, 258_048, None).blocks(1536, groups=4) == 672  # 675, less what four cannot share
    assert LoggedCache(None, 3072, 1536).blocks(16, groups=4) == 8


def test_a_log_without_a_size(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("INFO nothing")
    with pytest.raises(DataError, match="neither `# GPU blocks: N` nor"):
        read_log(tmp_path / "log")
