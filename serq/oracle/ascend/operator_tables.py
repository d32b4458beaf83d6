"""Replays of the recorded operator calls: FIA, INT8 cache and Gated DeltaNet."""

from __future__ import annotations

from typing import Any

from serq.kernels.ascend.attention_shape import AttentionShape
from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.c8 import Int8Cache, int8_attention_calls
from serq.kernels.ascend.fia import attention_calls
from serq.kernels.ascend.gdn import GatedDeltaNetBatch, GatedDeltaNetShape, gated_delta_net_calls
from serq.kernels.ascend.metadata import AttentionMetadata, build_metadata, start_locations
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument
from serq.kernels.operator_schema import check_call

Document = dict[str, Any]
LONGEST_SHOWN = 64


def shown_call(call: OperatorCall) -> Document:
    """A call as the recordings write it, after a check against its schema."""
    check_call(call)
    name = f"{call.operator}(triton pipeline)" if call.package == "triton" else call.operator
    shown: Document = {"op": name}
    shown |= {f"arg{position}": _shown(value) for position, value in enumerate(call.positional)}
    return shown | {keyword: _shown(value) for keyword, value in call.keywords.items()}


def _shown(value: Argument) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, TensorArgument):
        return value
    shown: Document = {"shape": list(value.shape), "dtype": value.dtype}
    if value.values is not None and len(value.values) <= LONGEST_SHOWN:
        shown["values"] = list(value.values)
    return shown


def _metadata(case: Document) -> AttentionMetadata:
    starts = start_locations(case["query_lens"])
    return build_metadata(
        starts,
        case["seq_lens"],
        AttentionState.of_label(case["state"]),
        threshold=case.get("decode_threshold", 1),
        block_table_width=case.get("block_cols", 4),
        slot_mapping=tuple(range(starts[-1])),
        causal=case.get("causal", True),
    )


def _shape(case: Document) -> AttentionShape:
    return AttentionShape(
        num_heads=case.get("heads", 8),
        num_kv_heads=case.get("kv_heads", 2),
        head_dim=case.get("head_dim", 128),
        num_blocks=16,
        sliding_window=case.get("sliding_window"),
        sinks=case.get("sinks", False),
    )


def _attention_row(metadata: AttentionMetadata, calls: tuple[OperatorCall, ...]) -> Document:
    return {
        "num_decodes": metadata.num_decodes,
        "num_prefills": metadata.num_prefills,
        "calls": [shown_call(call) for call in calls],
    }


def replay_fia(document: Document) -> list[Any]:
    """Kind ``fia``: the cache write and the attention calls of a layer."""
    rows = []
    for case in document["cases"]:
        metadata = _metadata(case)
        calls = attention_calls(
            metadata,
            _shape(case),
            split_mixed=case.get("device", "A2") == "A5",
            paged_decode=case.get("paged", False),
        )
        rows.append(_attention_row(metadata, calls))
    return rows


def replay_c8(document: Document) -> list[Any]:
    """Kind ``c8``: the calls of a layer with an INT8 cache."""
    rows = []
    for case in document["cases"]:
        metadata = _metadata(case)
        rows.append(_attention_row(metadata, int8_attention_calls(metadata, Int8Cache(_shape(case)))))
    return rows


def replay_gdn(document: Document) -> list[Any]:
    """Kind ``gdn``: the calls of a Gated DeltaNet layer (recorded with float32 tensors and 8 state slots)."""
    rows = []
    for case in document["cases"]:
        drafts, spec = case.get("num_spec", 0), case.get("spec", 0)
        whole = GatedDeltaNetShape(
            num_k_heads=case.get("k_heads", 16),
            num_v_heads=case.get("v_heads", 32),
            num_states=8,
            num_speculative_tokens=drafts,
            dtype="float32",
            conv_dtype="float32",
        )
        prefills = tuple(case.get("prefills", ()))
        batch = GatedDeltaNetBatch(
            decodes=case.get("decodes", 0),
            prefill_lens=prefills,
            spec_rows=spec,
            state_slots=tuple(range(case.get("decodes", 0) + len(prefills))),
            spec_state_slots=(0,) * (spec * (1 + drafts)),
            accepted=(1,) * spec,
        )
        shape = whole.on_rank(case.get("tp", 1))
        calls = gated_delta_net_calls(batch, shape, fused_chunk=case.get("fused", True))
        rows.append({"calls": [shown_call(call) for call in calls]})
    return rows
