"""Replays of the recorded tables about one step's layout: states, splits, padding, graphs, metadata."""

from __future__ import annotations

from typing import Any

from serq.kernels.ascend.attention_state import AttentionState, batch_state
from serq.kernels.ascend.dispatch import BatchPlanner, ExecutionPlan, GraphDispatcher, RankState
from serq.kernels.ascend.graph_mode import (
    DeviceFamily,
    GraphConfig,
    GraphMode,
    GraphOptions,
    resolve_graph_config,
)
from serq.kernels.ascend.metadata import build_metadata, start_locations
from serq.kernels.ascend.padding import PaddingError, pad_query_start_loc
from serq.kernels.ascend.split import split_decodes_and_prefills

Document = dict[str, Any]
ASSERTION = {"error": "AssertionError"}


def replay_attn_state(document: Document) -> list[Any]:
    """Kind ``attn_state``: the returned state, the stored state, whether the step has a prefill."""
    rows = []
    for case in document["cases"]:
        state = batch_state(
            case["computed"],
            case["scheduled"],
            case.get("drafts") or [0] * len(case["scheduled"]),
            speculative_method=case.get("spec"),
            chunked_prefill=case.get("chunked", True),
        )
        rows.append([state.resolved.label, state.attention.label, state.with_prefill])
    return rows


def replay_split(document: Document) -> list[Any]:
    """Kind ``split``: decodes, prefills, decode tokens, prefill tokens."""
    rows = []
    for case in document["cases"]:
        short_decodes = case.get("treat_short_extends_as_decodes", True) or case.get("pd_recompute", False)
        split = split_decodes_and_prefills(
            case["query_lens"],
            decode_threshold=case["decode_threshold"],
            num_tokens=case.get("num_actual_tokens"),
            max_query_len=case.get("max_query_len"),
            require_uniform=case.get("require_uniform", False),
            prefilling=None if short_decodes else case["is_prefilling"],
        )
        rows.append(list(split))
    return rows


def replay_pad_qsl(document: Document) -> list[Any]:
    """Kind ``pad_qsl``: the query boundaries with dummy rows."""
    rows: list[Any] = []
    for case in document["cases"]:
        try:
            boundaries = pad_query_start_loc(
                start_locations(case["query_lens"]),
                num_tokens_padded=case["num_tokens_padded"],
                num_reqs_padded=case.get("num_reqs_padded", len(case["query_lens"])),
                uniform_query_len=case["uniform_decode_query_len"],
                configured_mode=GraphMode[case["config_mode"]],
                runtime_mode=GraphMode[case["runtime_mode"]],
                descriptor_num_reqs=case.get("desc_num_reqs"),
            )
        except PaddingError:
            rows.append(ASSERTION)
        else:
            rows.append({"num_reqs_padded": len(boundaries) - 1, "query_start_loc": list(boundaries)})
    return rows


def replay_meta(document: Document) -> list[Any]:
    """Kind ``meta``: what the attention metadata builder makes of a padded batch."""
    rows = []
    for case in document["cases"]:
        query_lens = case["query_lens"]
        seq_lens = case.get("seq_lens") or query_lens
        metadata = build_metadata(
            start_locations(query_lens),
            seq_lens[: case.get("num_real_reqs", len(seq_lens))],
            AttentionState.of_label(case["state"]),
            threshold=case["decode_threshold"],
            num_actual_tokens=case.get("num_actual_tokens"),
            max_query_len=case.get("max_query_len"),
        )
        rows.append(
            {
                "num_actual_tokens": metadata.num_actual_tokens,
                "num_decodes": metadata.num_decodes,
                "num_prefills": metadata.num_prefills,
                "num_decode_tokens": metadata.num_decode_tokens,
                "actual_seq_lengths_q": list(metadata.query_ends),
                "seq_lens_list": list(metadata.seq_lens),
                "block_table_rows": metadata.block_table_shape[0],
                "slots": metadata.slots.shape[0],
                "max_query_len": metadata.max_query_len,
                "state": metadata.state.label,
            }
        )
    return rows


def graph_options(case: Document) -> GraphOptions:
    """The graph options that a recorded configuration stands for."""
    mode = case.get("cudagraph_mode")
    sizes = case.get("capture_sizes")
    return GraphOptions(
        max_num_seqs=case.get("max_num_seqs", 32),
        max_num_batched_tokens=case.get("max_num_batched_tokens", 2048),
        num_speculative_tokens=case.get("num_spec", 0),
        device=DeviceFamily(case.get("device", "A2")),
        mode=GraphMode[mode] if mode else None,
        enforce_eager=case.get("enforce_eager", False),
        capture_sizes=tuple(sizes) if sizes else None,
        max_capture_size=case.get("max_capture"),
        tensor_parallel_size=case.get("tp", 1),
    )


def replay_capture(document: Document) -> list[Any]:
    """Kind ``capture``: the graph mode and capture sizes in effect."""
    return [_capture_row(resolve_graph_config(graph_options(case))) for case in document["cases"]]


def _capture_row(graphs: GraphConfig) -> Document:
    return {
        "mode": graphs.mode.name,
        "compile": "VLLM_COMPILE" if graphs.compiled else "NONE",
        "sizes": list(graphs.capture_sizes),
        "max": graphs.max_capture_size,
    }


def replay_dispatch(document: Document) -> list[Any]:
    """Kind ``dispatch``: runtime mode and padding of a batch, alone or after the ranks agreed."""
    config = document["config"]
    options = graph_options(config["vllm"])
    length = 1 + options.num_speculative_tokens
    planner = BatchPlanner(
        dispatcher=GraphDispatcher(resolve_graph_config(options), options.max_num_seqs, length),
        uniform_query_len=length,
        speculative=options.num_speculative_tokens > 0,
        tensor_parallel_size=options.tensor_parallel_size,
        shards_tokens=config.get("sp", False),
        enforce_eager=options.enforce_eager,
    )
    ranks = config["vllm"].get("dp", 1)
    return [_dispatch_row(planner, case, ranks) for case in document["cases"]]


def _dispatch_row(planner: BatchPlanner, case: Document, ranks: int) -> Document:
    try:
        plan = _plan(planner, case, ranks)
    except PaddingError:
        return ASSERTION
    descriptor, view = plan.descriptor, plan.tokens_across_ranks
    return {
        "mode": descriptor.mode.name,
        "num_tokens": descriptor.num_tokens,
        "num_reqs": descriptor.num_reqs,
        "uniform": descriptor.uniform,
        "across_dp": None if view is None else list(view),
    }


def _plan(planner: BatchPlanner, case: Document, ranks: int) -> ExecutionPlan:
    computed, scheduled = case["computed"], case["scheduled"]
    if ranks == 1:
        return planner.plan(computed, scheduled)
    if case.get("skip_allreduce", False):
        return planner.plan_without_agreement(computed, scheduled, ranks)
    others = [RankState(tokens, GraphMode(mode)) for tokens, mode in case.get("other_ranks", [])]
    return planner.plan_with_ranks(computed, scheduled, others)
