"""The operators of one step on one rank, as calls to run: attention and GDN from the layout, the rest dense.

An operator is timed for one layer and counts once a layer. Names and groups are those of the roofline, so
that a measured operator stands beside its estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from serq.kernels.ascend.attention_shape import KERNEL_BLOCK_SIZE, AttentionShape
from serq.kernels.ascend.gdn import GatedDeltaNetShape
from serq.kernels.layout import BatchLayout
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.roofline.shard import Shard
from serq.kernels.step_batch import StepBatch

DENSE = "serq.dense"
"""The owner of dense operators: functions of ``serq.kernels.reference.dense``."""

Axis = Literal["shape", "tokens", "scheduled"]


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """One operator of a step: the calls of one layer, and how many layers make them.

    ``axis``: the quantity of the step that its price depends on.
    """

    name: str
    axis: Axis
    layers: int
    calls: tuple[OperatorCall, ...]


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """From a laid-out step of ``shard`` to its operators.

    ``dtype`` is the element type of weights, activations and, unless ``int8_cache``, of keys and values.
    ``pads``: the layout pads tokens by more than their number, so that dense operators depend on the shape
    of the step.
    """

    shard: Shard
    dtype: str
    int8_cache: bool = False
    num_speculative_tokens: int = 0
    pads: bool = False

    def operators(self, batch: StepBatch, layout: BatchLayout) -> Iterator[MeasuredOperator]:
        """Every operator of the step, by name."""
        return iter(sorted(self._operators(batch, layout), key=lambda operator: operator.name))

    def attention_shape(self, batch: StepBatch) -> AttentionShape:
        """Heads of a rank, and a cache of the blocks that the step's rows hold, and a null block."""
        shard = self.shard
        blocks = sum(-(-(row.computed + row.query) // KERNEL_BLOCK_SIZE) for row in batch.rows)
        return AttentionShape(
            shard.num_heads,
            shard.num_kv_heads,
            shard.model.head_dim,
            num_blocks=blocks + 1,
            int8_cache=self.int8_cache,
            dtype=self.dtype,
        )

    def gated_delta_net_shape(self, batch: StepBatch) -> GatedDeltaNetShape:
        """Heads of a rank, and a state for every row and draft."""
        model = self.shard.model
        whole = GatedDeltaNetShape(
            model.gdn_key_heads,
            model.gdn_value_heads,
            num_states=len(batch.rows) * (1 + self.num_speculative_tokens) + 1,
            num_speculative_tokens=self.num_speculative_tokens,
            head_k_dim=model.gdn_key_dim,
            head_v_dim=model.gdn_value_dim,
            conv_width=model.gdn_conv_width,
            dtype=self.dtype,
            conv_dtype=self.dtype,
        )
        return whole.on_rank(self.shard.tensor_parallel_size)

    def _operators(self, batch: StepBatch, layout: BatchLayout) -> Iterator[MeasuredOperator]:
        model, tokens = self.shard.model, layout.num_tokens
        by_tokens: Axis = "shape" if self.pads else "tokens"
        full, linear, layers = model.full_attention_layers, model.gdn_layers, model.num_layers
        hidden = self._tensor(tokens, model.hidden_size)
        calls = (_dense("embedding", TensorArgument((tokens,), "int64"), self._vocabulary()),)
        yield MeasuredOperator("embedding", by_tokens, 1, calls)
        yield MeasuredOperator(
            "attention_projections", by_tokens, full, self._attention_projections(hidden, tokens)
        )
        attention = layout.attention_calls(self.attention_shape(batch))
        yield MeasuredOperator("attention", "shape", full, attention)
        if linear:
            projections = self._gdn_projections(hidden, tokens)
            yield MeasuredOperator("gdn_projections", by_tokens, linear, projections)
            rule = layout.gated_delta_net_calls(self.gated_delta_net_shape(batch))
            yield MeasuredOperator("gdn", "shape", linear, rule)
        if model.num_experts:
            yield MeasuredOperator("experts", by_tokens, layers, (self._experts(tokens),))
            router = self._router(hidden, tokens)
            yield MeasuredOperator("router_and_shared_expert", by_tokens, layers, router)
        else:
            width = model.intermediate_size // self.shard.tensor_parallel_size
            yield MeasuredOperator("mlp", by_tokens, layers, self._mlp(hidden, tokens, width))
        yield MeasuredOperator("norms_and_activations", by_tokens, layers, self._elementwise(tokens))
        last = self._tensor(len(batch.rows), model.hidden_size)
        yield MeasuredOperator("lm_head", "scheduled", 1, (_dense("linear", last, self._vocabulary()),))

    # --- dense calls ------------------------------------------------------------------------------------

    def _tensor(self, *shape: int) -> TensorArgument:
        return TensorArgument(shape, self.dtype)

    def _vocabulary(self) -> TensorArgument:
        model = self.shard.model
        return self._tensor(-(-model.vocab_size // self.shard.tensor_parallel_size), model.hidden_size)

    def _attention_projections(self, hidden: TensorArgument, tokens: int) -> tuple[OperatorCall, ...]:
        shard, model = self.shard, self.shard.model
        heads = shard.num_heads * model.head_dim
        queries = heads * (2 if model.attention_output_gate else 1)
        width = queries + 2 * shard.num_kv_heads * model.head_dim
        return (
            _dense("linear", hidden, self._tensor(width, model.hidden_size)),
            _dense("linear", self._tensor(tokens, heads), self._tensor(model.hidden_size, heads)),
        )

    def _gdn_projections(self, hidden: TensorArgument, tokens: int) -> tuple[OperatorCall, ...]:
        model, ranks = self.shard.model, self.shard.tensor_parallel_size
        values = self.shard.gdn_value_heads * model.gdn_value_dim
        return (
            _dense("linear", hidden, self._tensor(model.gdn_projection_width // ranks, model.hidden_size)),
            _dense("linear", self._tensor(tokens, values), self._tensor(model.hidden_size, values)),
        )

    def _mlp(self, hidden: TensorArgument, tokens: int, width: int) -> tuple[OperatorCall, ...]:
        size = self.shard.model.hidden_size
        return (
            _dense("linear", hidden, self._tensor(2 * width, size)),
            _dense("linear", self._tensor(tokens, width), self._tensor(size, width)),
        )

    def _router(self, hidden: TensorArgument, tokens: int) -> tuple[OperatorCall, ...]:
        model, ranks = self.shard.model, self.shard.tensor_parallel_size
        calls = (_dense("linear", hidden, self._tensor(model.num_experts, model.hidden_size)),)
        width = model.shared_expert_intermediate_size // ranks
        return (*calls, *self._mlp(hidden, tokens, width)) if width else calls

    def _experts(self, tokens: int) -> OperatorCall:
        """Tokens choose experts evenly, and every engine brings as many tokens as this one."""
        model, shard = self.shard.model, self.shard
        chosen = tokens * shard.data_parallel_size * model.experts_per_token
        whole = shard.expert_parallel
        experts = model.num_experts // (shard.expert_ranks if whole else 1)
        width = model.expert_intermediate_size // (1 if whole else shard.expert_ranks)
        each, more = divmod(chosen, model.num_experts)
        counts = tuple(each + (expert < more) for expert in range(experts))
        return _dense(
            "routed_experts",
            self._tensor(sum(counts), model.hidden_size),
            self._tensor(experts, 2 * width, model.hidden_size),
            self._tensor(experts, model.hidden_size, width),
            counts,
        )

    def _elementwise(self, tokens: int) -> tuple[OperatorCall, ...]:
        """Two norms with their residuals, the norms and the turning of queries and keys, the activation."""
        shard, model = self.shard, self.shard.model
        hidden, scale = self._tensor(tokens, model.hidden_size), self._tensor(model.hidden_size)
        heads = self._tensor(tokens, shard.num_heads + shard.num_kv_heads, model.head_dim)
        turn = self._tensor(tokens, 1, model.head_dim)
        calls = [_dense("add_rms_norm", hidden, hidden, scale)] * 2
        if model.qk_norm:
            calls.append(_dense("rms_norm", heads, self._tensor(model.head_dim)))
        calls.append(_dense("rotary_embedding", heads, turn, turn))
        width = model.intermediate_size or model.shared_expert_intermediate_size
        if width:
            calls.append(
                _dense("silu_and_mul", self._tensor(tokens, 2 * width // shard.tensor_parallel_size))
            )
        return tuple(calls)


def _dense(operator: str, *arguments: TensorArgument | tuple[int, ...]) -> OperatorCall:
    return OperatorCall(DENSE, operator, arguments)
