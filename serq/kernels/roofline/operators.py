"""The operators of one step of a model on one rank, each a roofline of its own (docs/executors.md).

Every operator is over all layers. Weights are read once a step, activations once in and once out. Matrix
products count two operations a weight and token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from serq.kernels.roofline.machine import Machine
from serq.kernels.roofline.shard import Shard
from serq.kernels.work import Part, Work

CHUNK = 64
"""Tokens of a chunk of the Gated DeltaNet prefill, as in vllm-ascend (facts: section 2)."""

STATE_BYTES = 4
"""A Gated DeltaNet state is kept in fp32 (``mamba_ssm_dtype`` of the models)."""


class Operator(NamedTuple):
    """One operator: its name, the group whose efficiency it has (empty: none), its seconds in a step.

    ``dense``: they depend on the tokens alone, padding included.
    """

    name: str
    group: str
    seconds: Callable[[Work], float]
    dense: bool = True


GROUPS: Final = ("linear", "attention", "gdn", "experts", "lm_head")
"""Groups of operators that can have an efficiency of their own."""


@dataclass(frozen=True, slots=True)
class Attention:
    """How attention calls are priced.

    ``split`` says of a step with decodes and prefills whether they are two calls; None: whichever is the
    cheaper. ``decode_head`` and ``mixed_decode_head`` are the least seconds that a decode takes by query head
    and token of context, in a call of its own and beside prefills.
    """

    split: Callable[[Work], bool] | None
    decode_head: float = 0.0
    mixed_decode_head: float = 0.0


@dataclass(frozen=True, slots=True)
class Operators:
    """The operators of a shard on a machine; bytes of an element of weights, activations and KV cache."""

    shard: Shard
    machine: Machine
    attention: Attention
    weight_bytes: float = 2.0
    activation_bytes: float = 2.0
    cache_bytes: float = 2.0
    weight_peak: float | None = None
    """Operations a second on weights of fewer bits; None: those of the machine."""
    efficiency: dict[str, float] = field(default_factory=dict)
    """Operator group -> the share of the roofline that it reaches, in place of the machine's."""

    def all(self) -> Iterator[Operator]:
        """Every operator of the model, in the order of a layer."""
        model = self.shard.model
        yield Operator("embedding", "", self._embedding)
        yield Operator("attention_projections", "linear", self._attention_projections)
        yield Operator("attention", "attention", self.attention_seconds, dense=False)
        if model.gdn_layers:
            yield Operator("gdn_projections", "linear", self._gdn_projections)
            yield Operator("gdn", "gdn", self._gdn, dense=False)
        if model.num_experts:
            yield Operator("router_and_shared_expert", "linear", self._dense_mlp)
            yield Operator("experts", "experts", self._experts)
        else:
            yield Operator("mlp", "linear", self._dense_mlp)
        yield Operator("norms_and_activations", "", self._elementwise)
        if self.shard.tensor_parallel_size > 1 or (model.num_experts and self.shard.expert_ranks > 1):
            yield Operator("collectives", "", self._collectives)
        yield Operator("lm_head", "lm_head", self._lm_head, dense=False)

    # --- matrix products --------------------------------------------------------------------------------

    def _products(self, group: str, tokens: float, weights: float, widths: float, calls: float) -> float:
        """``weights`` parameters met by ``tokens`` tokens, ``widths`` activations a token in and out."""
        bits = self.activation_bytes if group == "lm_head" else self.weight_bytes
        moved = weights * bits + tokens * widths * self.activation_bytes
        peak = None if group == "lm_head" else self.weight_peak
        return self.machine.seconds(2.0 * tokens * weights, moved, calls, self.efficiency.get(group), peak)

    def _embedding(self, work: Work) -> float:
        moved = 2.0 * work.tokens * self.shard.model.hidden_size * self.activation_bytes
        return self.machine.seconds(0.0, moved, 1)

    def _attention_projections(self, work: Work) -> float:
        model, layers = self.shard.model, self.shard.model.full_attention_layers
        widths = 2 * model.hidden_size + self.shard.attention_weights / model.hidden_size
        weights = layers * self.shard.attention_weights
        return self._products("linear", work.tokens, weights, layers * widths, 2 * layers)

    def _gdn_projections(self, work: Work) -> float:
        model, ranks, layers = self.shard.model, self.shard.tensor_parallel_size, self.shard.model.gdn_layers
        widths = 2 * model.hidden_size + model.gdn_weights / model.hidden_size / ranks
        return self._products(
            "linear", work.tokens, layers * model.gdn_weights / ranks, layers * widths, 3 * layers
        )

    def _dense_mlp(self, work: Work) -> float:
        model, ranks, layers = self.shard.model, self.shard.tensor_parallel_size, self.shard.model.num_layers
        weights = model.dense_mlp_weights / ranks
        if not weights:
            return 0.0
        widths = 2 * model.hidden_size + weights / model.hidden_size
        return self._products("linear", work.tokens, layers * weights, layers * widths, 2 * layers)

    def _experts(self, work: Work) -> float:
        """Tokens choose experts evenly, and all data-parallel ranks bring as many tokens as this one."""
        model, shard = self.shard.model, self.shard
        tokens = work.tokens * shard.data_parallel_size
        share = model.experts_per_token / model.num_experts
        touched = 1.0 - (1.0 - share) ** tokens
        weights = model.num_layers * shard.expert_weights
        operations = 2.0 * tokens * share * weights
        widths = 2 * model.hidden_size + 3 * model.expert_intermediate_size
        rows = model.num_layers * tokens * model.experts_per_token / shard.expert_ranks
        moved = weights * touched * self.weight_bytes + rows * widths * self.activation_bytes
        calls = 2 * model.num_layers
        efficiency = self.efficiency.get("experts")
        return self.machine.seconds(operations, moved, calls, efficiency, self.weight_peak)

    def _lm_head(self, work: Work) -> float:
        """Logits of one token a request."""
        model = self.shard.model
        weights = model.embedding_weights / self.shard.tensor_parallel_size
        widths = model.hidden_size + weights / model.hidden_size
        return self._products("lm_head", work.rows, weights, widths, 1)

    def _elementwise(self, work: Work) -> float:
        """Norms, rotary embedding, residuals, activation functions: memory only, six passes a layer."""
        model = self.shard.model
        moved = 6.0 * model.num_layers * work.tokens * model.hidden_size * self.activation_bytes
        return self.machine.seconds(0.0, moved, 0)

    # --- attention --------------------------------------------------------------------------------------

    def attention_seconds(self, work: Work) -> float:
        """The attention calls of all full-attention layers: one a layer, or two where the step is split."""
        rule = self.attention.split
        if not work.mixed:
            return self._attention_calls(work, split=False)
        if rule is None:
            return min(self._attention_calls(work, split) for split in (False, True))
        return self._attention_calls(work, rule(work))

    def _attention_calls(self, work: Work, split: bool) -> float:
        alone = split or not work.mixed
        head = self.attention.decode_head if alone else self.attention.mixed_decode_head
        seconds = self._attention_part(work.prefills, 0.0) + self._attention_part(work.decodes, head)
        calls = 2 if split else 1
        return self.shard.model.full_attention_layers * (seconds + calls * self.machine.overhead)

    def _attention_part(self, part: Part, head: float) -> float:
        shard, dim = self.shard, self.shard.model.head_dim
        operations = 4.0 * shard.num_heads * dim * part.pairs
        moved = 2.0 * shard.num_kv_heads * dim * part.keys * self.cache_bytes
        moved += 2.0 * shard.num_heads * dim * part.tokens * self.activation_bytes
        seconds = self.machine.seconds(operations, moved, 0, self.efficiency.get("attention"))
        return max(seconds, head * shard.num_heads * part.keys)

    # --- linear layers ----------------------------------------------------------------------------------

    def _gdn(self, work: Work) -> float:
        """Convolution, gating and delta rule; decodes and prefills are calls of their own (V-093)."""
        return self.shard.model.gdn_layers * (
            self._gdn_part(work.decodes, self._recurrent_operations())
            + self._gdn_part(work.prefills, self._chunk_operations())
        )

    def _gdn_part(self, part: Part, operations_per_head: float) -> float:
        if not part.tokens:
            return 0.0
        shard, model = self.shard, self.shard.model
        channels = model.gdn_conv_channels / shard.tensor_parallel_size
        values = shard.gdn_value_heads * model.gdn_value_dim
        state = shard.gdn_value_heads * model.gdn_value_dim * model.gdn_key_dim * STATE_BYTES
        window = channels * (model.gdn_conv_width - 1) * self.activation_bytes
        moved = 2.0 * part.rows * (state + window)
        moved += part.tokens * (3.0 * channels + 2.0 * values) * self.activation_bytes
        operations = part.tokens * shard.gdn_value_heads * operations_per_head
        return self.machine.seconds(operations, moved, 2, self.efficiency.get("gdn"))

    def _recurrent_operations(self) -> float:
        """Operations a token and value head of the recurrence: 7 Dk Dv (facts: section 2.3)."""
        model = self.shard.model
        return 7.0 * model.gdn_key_dim * model.gdn_value_dim

    def _chunk_operations(self) -> float:
        """Operations a token and value head of the chunked form, each product counted once."""
        key, value = self.shard.model.gdn_key_dim, self.shard.model.gdn_value_dim
        return 6.0 * key * value + 2.0 * CHUNK * (3 * key + 2 * value) + CHUNK**2 / 3

    # --- between ranks ----------------------------------------------------------------------------------

    def _collectives(self, work: Work) -> float:
        """An all-reduce behind every attention and every MLP; routed experts of several engines exchange."""
        shard, model, machine = self.shard, self.shard.model, self.machine
        message = work.tokens * model.hidden_size * self.activation_bytes
        ranks = shard.tensor_parallel_size
        reductions = model.num_layers
        exchange = 0.0
        if model.num_experts and shard.data_parallel_size > 1:
            gathered = message * shard.data_parallel_size
            exchange = 2 * machine.exchange(gathered * model.num_layers, shard.expert_ranks, model.num_layers)
        else:
            reductions *= 2
        return machine.all_reduce(message * reductions, ranks, reductions) + exchange
