"""The operator calls of one Gated DeltaNet (GDN) layer (V-089 to V-094)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from serq.kernels.ascend.metadata import start_locations
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument

CUSTOM_OPS = "_C_ascend"
LONGEST_RECURRENT_QUERY = 8


@dataclass(frozen=True, slots=True)
class GatedDeltaNetShape:
    """Heads and states of a GDN layer on one rank (V-094).

    ``num_states`` state slots are kept; ``dtype`` of activations, ``state_dtype`` of the recurrent state,
    ``conv_dtype`` of the convolution state and weight.
    """

    num_k_heads: int
    num_v_heads: int
    num_states: int
    num_speculative_tokens: int = 0
    head_k_dim: int = 128
    head_v_dim: int = 128
    conv_width: int = 4
    dtype: str = "bfloat16"
    conv_dtype: str = "bfloat16"
    state_dtype: str = "float32"

    def on_rank(self, tensor_parallel_size: int) -> GatedDeltaNetShape:
        """The share of one tensor-parallel rank; ValueError when the heads do not divide."""
        if self.num_k_heads % tensor_parallel_size or self.num_v_heads % tensor_parallel_size:
            raise ValueError(
                f"{self.num_k_heads} key and {self.num_v_heads} value heads do not divide into "
                f"{tensor_parallel_size} tensor-parallel ranks"
            )
        return replace(
            self,
            num_k_heads=self.num_k_heads // tensor_parallel_size,
            num_v_heads=self.num_v_heads // tensor_parallel_size,
        )

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.num_k_heads * self.head_k_dim + self.num_v_heads * self.head_v_dim

    @property
    def conv_state(self) -> TensorArgument:
        """The convolution states of every slot."""
        length = self.conv_width - 1 + self.num_speculative_tokens
        return TensorArgument((self.num_states, length, self.conv_dim), self.conv_dtype)

    def recurrent_state(self, slots: int, dtype: str | None = None) -> TensorArgument:
        """The recurrent states of ``slots`` slots, value-major."""
        view = (slots, self.num_v_heads, self.head_v_dim, self.head_k_dim)
        return TensorArgument(view, dtype or self.state_dtype)

    @property
    def scale(self) -> float:
        """The scale of the queries."""
        return float(self.head_k_dim**-0.5)


@dataclass(frozen=True, slots=True)
class GatedDeltaNetBatch:
    """One step's rows as a GDN layer sees them, in device order.

    ``spec_rows`` rows carry drafts and have one token and every draft; ``decodes`` rows have one token;
    ``prefill_lens`` are the query lengths of the rest. The slot of each state is known only when block tables
    are: ``state_slots`` per non-speculative row, ``spec_state_slots`` per speculative token.
    ``accepted`` tokens of each speculative row were kept in the step before.
    """

    decodes: int = 0
    prefill_lens: tuple[int, ...] = ()
    spec_rows: int = 0
    state_slots: tuple[int, ...] | None = None
    spec_state_slots: tuple[int, ...] | None = None
    accepted: tuple[int, ...] | None = None

    @property
    def query_lens(self) -> tuple[int, ...]:
        """Query lengths of the non-speculative rows."""
        return (1,) * self.decodes + self.prefill_lens


def reclassified(query_lens: Sequence[int], spec_rows: int) -> GatedDeltaNetBatch:
    """The batch of non-speculative rows of ``query_lens`` beside ``spec_rows`` speculative ones (V-093).

    One-token rows are decodes, unless they share a step with speculative rows: then they are prefills.
    """
    if spec_rows:
        return GatedDeltaNetBatch(0, tuple(query_lens), spec_rows)
    decodes = next((row for row, length in enumerate(query_lens) if length > 1), len(query_lens))
    return GatedDeltaNetBatch(decodes, tuple(query_lens[decodes:]))


def gated_delta_net_calls(
    batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape, *, fused_chunk: bool = True
) -> tuple[OperatorCall, ...]:
    """The convolutions and delta rules of one layer for one step (V-090 to V-093).

    Speculative rows and the others are convolved apart; decodes take the recurrent rule, prefills the chunked
    one: the fused operator, or the Triton pipeline when the probe for it fails (``fused_chunk`` False).
    """
    calls = []
    if batch.spec_rows:
        calls.append(_spec_convolution(batch, shape))
    if batch.query_lens:
        calls.append(_convolution(batch, shape))
    if batch.spec_rows:
        calls.append(_spec_recurrence(batch, shape))
    if batch.decodes:
        calls.append(_recurrence(batch, shape))
    if batch.prefill_lens:
        calls.append(_fused_chunks(batch, shape) if fused_chunk else _triton_chunks(batch, shape))
    return tuple(calls)


def _conv_call(
    tokens: int,
    shape: GatedDeltaNetShape,
    run_mode: int,
    starts: tuple[int, ...],
    cache_indices: TensorArgument,
    initial_state_mode: TensorArgument | None = None,
    num_accepted_tokens: TensorArgument | None = None,
) -> OperatorCall:
    packed = TensorArgument((tokens, shape.conv_dim), shape.dtype)
    return OperatorCall(
        CUSTOM_OPS,
        "npu_causal_conv1d_custom",
        (packed, packed, TensorArgument((shape.conv_width, shape.conv_dim), shape.conv_dtype)),
        {
            "conv_state": shape.conv_state,
            "bias_opt": None,
            "query_start_loc_opt": TensorArgument.of_lengths(starts),
            "cache_indices_opt": cache_indices,
            "initial_state_mode_opt": initial_state_mode,
            "num_accepted_tokens_opt": num_accepted_tokens,
            "activation_mode": 1,
            "pad_slot_id": -1,
            "run_mode": run_mode,
        },
    )


def _convolution(batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape) -> OperatorCall:
    """Decodes and prefills together: run mode 0 as soon as there is a prefill, 1 for pure decode (V-090)."""
    rows = len(batch.query_lens)
    if batch.spec_rows:
        cache_indices = TensorArgument((rows,), "int32", batch.state_slots)
    else:
        cache_indices = TensorArgument((rows, 1 + shape.num_speculative_tokens), "int32")
    prefills = bool(batch.prefill_lens)
    return _conv_call(
        sum(batch.query_lens),
        shape,
        0 if prefills else 1,
        start_locations(batch.query_lens),
        cache_indices,
        initial_state_mode=TensorArgument((rows,), "bool") if prefills else None,
    )


def _spec_convolution(batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape) -> OperatorCall:
    length = 1 + shape.num_speculative_tokens
    return _conv_call(
        batch.spec_rows * length,
        shape,
        1,
        start_locations((length,) * batch.spec_rows),
        TensorArgument((batch.spec_rows, length), "int32"),
        num_accepted_tokens=_accepted(batch),
    )


def _accepted(batch: GatedDeltaNetBatch) -> TensorArgument:
    return TensorArgument((batch.spec_rows,), "int32", batch.accepted)


def _recurrent_call(
    query_lens: tuple[int, ...],
    shape: GatedDeltaNetShape,
    slots: tuple[int, ...] | None,
    accepted: TensorArgument | None = None,
) -> OperatorCall:
    """The recurrent rule; its lengths are a leading 0, then one length a row (V-091)."""
    tokens = sum(query_lens)
    keys = TensorArgument((tokens, shape.num_k_heads, shape.head_k_dim), shape.dtype)
    gates = (tokens, shape.num_v_heads)
    keywords: dict[str, Argument] = {
        "query": keys,
        "key": keys,
        "value": TensorArgument((tokens, shape.num_v_heads, shape.head_v_dim), shape.dtype),
        "g": TensorArgument(gates, "float32"),
        "beta": TensorArgument(gates, shape.dtype),
        "state": shape.recurrent_state(shape.num_states),
        "scale": shape.scale,
        "actual_seq_lengths": TensorArgument.of_lengths((0, *query_lens)),
        "ssm_state_indices": TensorArgument((tokens,), "int32", slots),
    }
    if accepted is not None:
        keywords["num_accepted_tokens"] = accepted
    return OperatorCall(CUSTOM_OPS, "npu_recurrent_gated_delta_rule", keywords=keywords)


def _recurrence(batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape) -> OperatorCall:
    slots = None if batch.state_slots is None else batch.state_slots[: batch.decodes]
    return _recurrent_call((1,) * batch.decodes, shape, slots)


def _spec_recurrence(batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape) -> OperatorCall:
    lengths = (1 + shape.num_speculative_tokens,) * batch.spec_rows
    return _recurrent_call(lengths, shape, batch.spec_state_slots, _accepted(batch))


def _fused_chunks(batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape) -> OperatorCall:
    """The fused chunk operator: per-row lengths, initial states in bfloat16 (V-092)."""
    tokens, rows = sum(batch.prefill_lens), len(batch.prefill_lens)
    keys = TensorArgument((tokens, shape.num_k_heads, shape.head_k_dim), shape.dtype)
    values = TensorArgument((tokens, shape.num_v_heads, shape.head_v_dim), shape.dtype)
    return OperatorCall(
        "torch_npu",
        "npu_chunk_gated_delta_rule",
        (keys, keys, values),
        {
            "beta": TensorArgument((tokens, shape.num_v_heads), shape.dtype),
            "initial_state": shape.recurrent_state(rows, "bfloat16"),
            "actual_seq_lengths": TensorArgument.of_lengths(batch.prefill_lens),
            "scale": shape.scale,
            "g": TensorArgument((tokens, shape.num_v_heads), "float32"),
        },
    )


def _triton_chunks(batch: GatedDeltaNetBatch, shape: GatedDeltaNetShape) -> OperatorCall:
    """The Triton pipeline: a batch of one, cumulative lengths, chunks of 64 tokens (V-092)."""
    tokens, rows = sum(batch.prefill_lens), len(batch.prefill_lens)
    keys = TensorArgument((1, tokens, shape.num_k_heads, shape.head_k_dim), shape.dtype)
    return OperatorCall(
        "triton",
        "chunk_gated_delta_rule",
        keywords={
            "q": keys,
            "k": keys,
            "v": TensorArgument((1, tokens, shape.num_v_heads, shape.head_v_dim), shape.dtype),
            "g": TensorArgument((1, tokens, shape.num_v_heads), "float32"),
            "beta": TensorArgument((1, tokens, shape.num_v_heads), shape.dtype),
            "initial_state": shape.recurrent_state(rows),
            "output_final_state": True,
            "cu_seqlens": TensorArgument.of_lengths(start_locations(batch.prefill_lens)),
            "prebuilt_meta": None,
            "head_first": False,
            "use_qk_l2norm_in_kernel": True,
        },
    )
