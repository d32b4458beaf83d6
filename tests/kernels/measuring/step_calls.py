"""Small steps of every attention state, laid out as vllm-ascend does, and the calls they are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from serq.kernels.ascend.graph_mode import DeviceFamily, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.catalogue.models import models
from serq.kernels.measuring.operators import MeasuredOperator, OperatorPlan
from serq.kernels.operator_call import OperatorCall
from serq.kernels.roofline.shard import Shard
from serq.kernels.step_shape import parse_shape

SMALL = replace(
    models()["Qwen3.5-0.8B"],
    hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=32, gdn_key_heads=2, gdn_value_heads=4,
    gdn_key_dim=16, gdn_value_dim=16, intermediate_size=96, vocab_size=200,
)  # fmt: skip
EXPERTS = replace(SMALL, intermediate_size=0, num_experts=6, experts_per_token=2, expert_intermediate_size=16)
STEPS = {
    "PrefillNoCache": "p70@70 p1@1",
    "PrefillCacheHit": "p9@300",
    "DecodeOnly": "d1@256*3",
    "ChunkedPrefill": "d1@300 d1@129 p70@200 p5@5",
    "SpecDecoding": "d1+2@200 d1+2@90",
}


def operators(state: str, split: bool = False, **changed: Any) -> list[MeasuredOperator]:
    batch = parse_shape(STEPS[state])
    drafts = 2 if state == "SpecDecoding" else 0
    family = DeviceFamily.A5 if split else DeviceFamily.A2
    graphs = GraphOptions(8, device=family, enforce_eager=True, num_speculative_tokens=drafts)
    options = AscendLayoutOptions(graphs, 512, "mtp" if drafts else None, state != "PrefillCacheHit")
    layout = AscendLayoutEngine(options).layout(batch)
    assert layout.state.attention.label == state
    model = changed.pop("model", SMALL)
    dtype = changed.pop("dtype", "float32")
    plan = OperatorPlan(Shard(model), dtype, num_speculative_tokens=drafts, **changed)
    return list(plan.operators(batch, layout))


def calls(name: str, state: str, split: bool = False, **changed: Any) -> tuple[OperatorCall, ...]:
    return next(made.calls for made in operators(state, split, **changed) if made.name == name)
