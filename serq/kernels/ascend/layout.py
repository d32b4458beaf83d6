"""The layout of vllm-ascend: decodes first, one attention state, padding by graph mode (V-065 to V-078)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serq.kernels.ascend.attention_shape import KERNEL_BLOCK_SIZE, AttentionShape
from serq.kernels.ascend.attention_state import BatchState, batch_state
from serq.kernels.ascend.c8 import Int8Cache, int8_attention_calls
from serq.kernels.ascend.dispatch import (
    BatchDescriptor,
    BatchPlanner,
    ExecutionPlan,
    GraphDispatcher,
    RankState,
)
from serq.kernels.ascend.fia import attention_calls, uses_paged_attention
from serq.kernels.ascend.gdn import (
    GatedDeltaNetBatch,
    GatedDeltaNetShape,
    gated_delta_net_calls,
    reclassified,
)
from serq.kernels.ascend.graph_mode import (
    DeviceFamily,
    GraphConfig,
    GraphMode,
    GraphOptions,
    resolve_graph_config,
)
from serq.kernels.ascend.metadata import AttentionMetadata, build_metadata, decode_threshold, start_locations
from serq.kernels.ascend.padding import pad_query_start_loc
from serq.kernels.ascend.split import DecodePrefillSplit, split_decodes_and_prefills
from serq.kernels.operator_call import OperatorCall
from serq.kernels.step_batch import BatchRow, StepBatch


@dataclass(frozen=True, slots=True)
class AscendLayoutOptions:
    """What a deployment on vllm-ascend says about the layout of its steps.

    ``paged_sizes`` are the decode batches that go through paged attention (V-084); ``fused_chunk``: the fused
    chunk operator of Gated DeltaNet is there (V-092). ``max_model_len`` sets the width of block tables.
    """

    graphs: GraphOptions
    max_model_len: int
    speculative_method: str | None = None
    chunked_prefill: bool = True
    paged_sizes: tuple[int, ...] = ()
    fused_chunk: bool = True


@dataclass(frozen=True, slots=True)
class AscendBatchLayout:
    """One step of vllm-ascend on one rank."""

    rows: tuple[BatchRow, ...]
    order: tuple[int, ...]
    state: BatchState
    plan: ExecutionPlan
    metadata: AttentionMetadata
    options: AscendLayoutOptions
    graphs: GraphConfig

    @property
    def descriptor(self) -> BatchDescriptor:
        """The shape the batch executes with."""
        return self.plan.descriptor

    @property
    def num_tokens(self) -> int:
        """Tokens the layers compute, padding included."""
        return self.descriptor.num_tokens

    @property
    def graph(self) -> GraphMode:
        """The runtime graph mode."""
        return self.descriptor.mode

    @property
    def split(self) -> DecodePrefillSplit:
        """Where attention sees the decodes of the batch end, dummy rows left out (V-068)."""
        threshold = decode_threshold(self.options.graphs.num_speculative_tokens)
        return split_decodes_and_prefills([row.query for row in self.rows], decode_threshold=threshold)

    @property
    def splits_mixed(self) -> bool:
        """Whether decodes and prefills of a mixed batch are two attention calls (V-085)."""
        return self.options.graphs.device is DeviceFamily.A5

    def attention_calls(self, shape: AttentionShape) -> tuple[OperatorCall, ...]:
        """The calls of one full-attention layer, the cache write included."""
        if shape.int8_cache:
            return int8_attention_calls(self.metadata, Int8Cache(shape, shape.dtype))
        options = self.options
        paged = uses_paged_attention(
            self.num_tokens,
            shape.head_dim,
            full_decode_only=self.graphs.mode is GraphMode.FULL_DECODE_ONLY,
            paged_sizes=options.paged_sizes,
            speculative=options.speculative_method is not None,
            is_a5=options.graphs.device is DeviceFamily.A5,
        )
        return attention_calls(self.metadata, shape, split_mixed=self.splits_mixed, paged_decode=paged)

    def gated_delta_net_calls(self, shape: GatedDeltaNetShape) -> tuple[OperatorCall, ...]:
        """The calls of one Gated DeltaNet layer; one-token rows of a prompt are prefills there (V-069)."""
        batch = gated_delta_net_batch(self.rows)
        return gated_delta_net_calls(batch, shape, fused_chunk=self.options.fused_chunk)


def gated_delta_net_batch(rows: tuple[BatchRow, ...]) -> GatedDeltaNetBatch:
    """The rows of a step, in device order, as a Gated DeltaNet layer sees them (V-069, V-093)."""
    plain = [row for row in rows if not row.drafts]
    lengths = [row.query for row in plain]
    spec_rows = len(rows) - len(plain)
    if spec_rows:
        return reclassified(lengths, spec_rows)
    prefilling = [not row.decode for row in plain]
    split = split_decodes_and_prefills(lengths, decode_threshold=1, prefilling=prefilling)
    return GatedDeltaNetBatch(split.num_decodes, tuple(lengths[split.num_decodes :]))


class AscendLayoutEngine:
    """Lays steps out as vllm-ascend's model runner does."""

    def __init__(self, options: AscendLayoutOptions) -> None:
        self._options = options
        self._graphs = resolve_graph_config(options.graphs)
        given = options.graphs
        self._threshold = decode_threshold(given.num_speculative_tokens)
        self.planner = BatchPlanner(
            dispatcher=GraphDispatcher(self._graphs, given.max_num_seqs, self._threshold),
            uniform_query_len=self._threshold,
            speculative=given.num_speculative_tokens > 0,
            tensor_parallel_size=given.tensor_parallel_size,
            shards_tokens=given.shards_tokens,
            enforce_eager=given.enforce_eager,
        )

    @property
    def options(self) -> AscendLayoutOptions:
        """What the deployment says."""
        return self._options

    def layout(self, batch: StepBatch) -> AscendBatchLayout:
        """The layout of a rank on its own."""
        order = decode_first_order(batch.rows, self._threshold)
        rows = tuple(batch.rows[place] for place in order)
        plan = self.planner.plan([row.computed for row in rows], [row.query for row in rows])
        return self.layout_planned(rows, order, plan)

    def layout_with_ranks(self, batch: StepBatch, others: Sequence[RankState]) -> AscendBatchLayout:
        """The layout of a data-parallel rank after it agreed with the ``others`` (V-074)."""
        order = decode_first_order(batch.rows, self._threshold)
        rows = tuple(batch.rows[place] for place in order)
        computed, scheduled = [row.computed for row in rows], [row.query for row in rows]
        return self.layout_planned(rows, order, self.planner.plan_with_ranks(computed, scheduled, others))

    def state(self, batch: StepBatch) -> RankState:
        """What a rank publishes about a step."""
        return self.planner.state([row.computed for row in batch.rows], [row.query for row in batch.rows])

    def dummy_state(self) -> RankState:
        """What a rank publishes that has nothing to do: one decode of the uniform length (V-076)."""
        return self.planner.state([1], [self._threshold])

    def layout_planned(
        self, rows: tuple[BatchRow, ...], order: tuple[int, ...], plan: ExecutionPlan
    ) -> AscendBatchLayout:
        """The layout of ``rows``, which are in device order, after the ranks agreed on ``plan``."""
        state = batch_state(
            [row.computed for row in rows],
            [row.query for row in rows],
            [row.drafts for row in rows],
            speculative_method=self._options.speculative_method,
            chunked_prefill=self._options.chunked_prefill,
        )
        metadata = build_metadata(
            self._boundaries([row.query for row in rows], plan.descriptor),
            [row.computed + row.query for row in rows],
            state.attention,
            threshold=self._threshold,
            num_actual_tokens=sum(row.query for row in rows),
            block_table_width=-(-self._options.max_model_len // KERNEL_BLOCK_SIZE),
        )
        return AscendBatchLayout(rows, order, state, plan, metadata, self._options, self._graphs)

    def _boundaries(self, query_lens: list[int], descriptor: BatchDescriptor) -> tuple[int, ...]:
        """Query boundaries, with dummy rows where the attention call sees padded tokens (V-077)."""
        starts = start_locations(query_lens)
        if descriptor.mode is not GraphMode.FULL and not self._options.graphs.shards_tokens:
            return starts
        return pad_query_start_loc(
            starts,
            num_tokens_padded=descriptor.num_tokens,
            num_reqs_padded=len(query_lens),
            uniform_query_len=self._threshold,
            configured_mode=self._graphs.mode,
            runtime_mode=descriptor.mode,
            descriptor_num_reqs=descriptor.num_reqs,
        )


def decode_first_order(rows: tuple[BatchRow, ...], threshold: int) -> tuple[int, ...]:
    """Places of the rows in device order (V-068, V-069).

    Decodes, then short chunks of started prompts, then long ones, then fresh prompts; within a kind the order
    of scheduling. A row is short when it has at most ``threshold`` tokens.
    """

    def kind(place: int) -> int:
        row = rows[place]
        if not row.computed:
            return 3
        if row.query > threshold:
            return 2
        return 0 if row.computed >= row.prompt else 1

    return tuple(sorted(range(len(rows)), key=kind))
