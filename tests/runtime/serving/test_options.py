"""Every option of an engine is resolved, printed, and has the default that the table of options gives."""

from __future__ import annotations

import pytest

from serq.ir.engine_options import ENGINE_OPTIONS
from serq.ir.serving import KVCacheGroup, Speculative, Vllm
from serq.runtime.serving.options import resolve
from tests.runtime.serving.build import E

MINIMAL = Vllm(cost=E("1"), num_gpu_blocks=100, max_model_len=1000)


def options(declared: Vllm) -> dict[str, object]:
    return dict(resolve("engine", declared).options)


def test_defaults_are_those_of_the_table() -> None:
    resolved = options(MINIMAL)
    assert "gpu_memory_utilization" not in resolved  # it says nothing where `num_gpu_blocks` is given (E433)
    for option in ENGINE_OPTIONS.values():
        if option.name == "gpu_memory_utilization":
            continue
        assert option.name in resolved
        if option.default is not None:
            assert resolved[option.name] == option.default, option.name


@pytest.mark.parametrize(
    ("method", "default"),
    [("ngram", False), ("draft_model", False), ("eagle", True), ("mtp", True), ("ngram_gpu", True)],
)
def test_async_scheduling_is_on_unless_the_drafter_forbids_it(method: str, default: bool) -> None:
    """As vLLM 0.27.1 resolves it when nothing is said."""
    declared = Vllm(
        cost=E("1"), num_gpu_blocks=100, max_model_len=1000, speculative=Speculative(method, 2, (0.5, 0.5))
    )
    assert options(declared)["async_scheduling"] is default
    assert options(MINIMAL)["async_scheduling"] is True


def test_a_state_without_a_block_size_spans_the_model() -> None:
    groups = (KVCacheGroup("full", 32), KVCacheGroup("mamba", mode="none"))
    declared = Vllm(
        cost=E("1"), num_gpu_blocks=100, max_model_len=1024, groups=groups, enable_prefix_caching=False
    )
    shown = options(declared)
    assert shown["groups"] == "full(block_size 32), mamba(block_size 1024, mode none)"
    assert shown["block_size"] == 1024
