"""Runs operator calls with the references: the same arguments as on the device, computed by torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from serq.kernels.operator_call import OperatorCall
from serq.kernels.operator_schema import OperatorCallError
from serq.kernels.reference import dense
from serq.kernels.reference.attention import fused_infer_attention, scatter_kv_cache
from serq.kernels.reference.gated_delta_net import causal_conv1d, chunked_rule, recurrent_rule

Arguments = Mapping[str, Any]


def run_call(call: OperatorCall, positional: Sequence[Any], keywords: Arguments) -> Any:
    """What the operator of ``call`` returns. Raises OperatorCallError for one without a reference."""
    if call.package == "serq.dense":
        return getattr(dense, call.operator)(*positional)
    known = _OPERATORS.get(call.operator)
    if known is None:
        raise OperatorCallError(f"no reference of {call.package}.{call.operator}")
    return known(*positional, **keywords)


def _paged_attention(**arguments: Any) -> Any:
    """One query token a row over a cache (blocks, block, Nkv, D), written to ``out``."""
    query, cache = arguments["query"], arguments["key_cache"]
    out = fused_infer_attention(
        query,
        cache.flatten(2),
        arguments["value_cache"].flatten(2),
        actual_seq_lengths=list(range(1, query.shape[0] + 1)),
        actual_seq_lengths_kv=arguments["context_lens"],
        block_table=arguments["block_table"],
        block_size=cache.shape[1],
        input_layout="TND",
        num_heads=arguments["num_heads"],
        num_key_value_heads=arguments["num_kv_heads"],
        scale=arguments["scale_value"],
        sparse_mode=3,
    )
    arguments["out"].copy_(out)


def _recurrent(query: Any, key: Any, value: Any, state: Any, **arguments: Any) -> Any:
    """The lengths are a leading 0, then one length a row (V-091)."""
    accepted = arguments.get("num_accepted_tokens")
    return recurrent_rule(
        query,
        key,
        value,
        state,
        beta=arguments["beta"],
        g=arguments["g"],
        scale=arguments["scale"],
        lengths=arguments["actual_seq_lengths"].tolist()[1:],
        slots=arguments["ssm_state_indices"].tolist(),
        accepted=None if accepted is None else accepted.tolist(),
    )


def _chunks(query: Any, key: Any, value: Any, **arguments: Any) -> Any:
    return chunked_rule(
        query,
        key,
        value,
        beta=arguments["beta"],
        g=arguments["g"],
        scale=arguments["scale"],
        initial_state=arguments["initial_state"],
        lengths=arguments["actual_seq_lengths"].tolist(),
    )


def _triton_chunks(q: Any, k: Any, v: Any, **arguments: Any) -> Any:
    """A batch of one, cumulative lengths, queries and keys normalised inside, scale of the key width."""
    import torch

    query, key = (torch.nn.functional.normalize(part[0].float(), dim=-1) for part in (q, k))
    out, state = chunked_rule(
        query,
        key,
        v[0],
        beta=arguments["beta"][0],
        g=arguments["g"][0],
        scale=q.shape[-1] ** -0.5,
        initial_state=arguments["initial_state"],
        lengths=[end - start for start, end in pairwise(arguments["cu_seqlens"].tolist())],
    )
    return out[None], state


_OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    "npu_fused_infer_attention_score": fused_infer_attention,
    "npu_scatter_pa_kv_cache": scatter_kv_cache,
    "_npu_paged_attention": _paged_attention,
    "npu_causal_conv1d_custom": causal_conv1d,
    "npu_recurrent_gated_delta_rule": _recurrent,
    "npu_chunk_gated_delta_rule": _chunks,
    "chunk_gated_delta_rule": _triton_chunks,
}
