"""How much of a device's memory weights and KV cache take, in bfloat16."""

from __future__ import annotations

from serq.kernels.catalogue.models import ModelShape
from serq.kernels.measured.executor import BYTES, Parallelism


def kv_bytes_per_token(model: ModelShape, tensor_parallel: int) -> int:
    """Bytes of KV cache a token takes on one device; KV heads are copied where there are too few."""
    heads = max(model.num_kv_heads // tensor_parallel, 1)
    return 2 * model.num_layers * heads * model.head_dim * BYTES


def weight_bytes(model: ModelShape, parallelism: Parallelism) -> float:
    """Bytes of weights on one device; every device holds all norms."""
    experts = model.num_layers * model.num_experts * model.expert_weights
    over = parallelism.experts_over if parallelism.expert else parallelism.tensor
    per_layer = 2 * model.hidden_size + 2 * model.head_dim * model.qk_norm
    norms = model.num_layers * per_layer + model.hidden_size
    return BYTES * ((model.parameters - experts) / parallelism.tensor + experts / over + norms)
