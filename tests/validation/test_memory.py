"""What weights and KV cache take of a device."""

from __future__ import annotations

import pytest

from serq.kernels.catalogue.models import models
from serq.kernels.measured.executor import Parallelism
from serq.validation.memory import kv_bytes_per_token, weight_bytes


def test_weights_of_one_device() -> None:
    # Whole experts on half the devices, the rest on every device.
    model = models()["Qwen3-30B-A3B"]
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    whole = weight_bytes(model, Parallelism())
    assert whole == pytest.approx(2 * 30.53e9, rel=0.001)
    assert weight_bytes(model, Parallelism(data=2, expert=True)) == whole - experts / 2
    assert weight_bytes(models()["Qwen3-32B"], Parallelism(tensor=2)) / 1e9 == pytest.approx(32.76, rel=0.001)


def test_the_handed_blocks_are_what_the_weights_leave() -> None:
    """2588 blocks of 16 tokens, stated by the engine; 24 GiB at a share of 0.833919, stated beside it."""
    model = models()["Llama-3.1-8B"]
    left = 24 * 2**30 * 0.833919 - weight_bytes(model, Parallelism())
    assert left // (16 * kv_bytes_per_token(model, 1)) == 2588


def test_kv_bytes_of_a_token() -> None:
    # 2 (K, V) x 64 layers x 8 heads x 128 x 2 bytes; half of it on each of two devices.
    model = models()["Qwen3-32B"]
    assert kv_bytes_per_token(model, 1) == 262_144
    assert kv_bytes_per_token(model, 2) == 131_072
    assert kv_bytes_per_token(model, 16) == 2 * 64 * 128 * 2
