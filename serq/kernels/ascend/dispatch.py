"""Which graph a batch runs as and how far its tokens are padded, alone and across DP ranks (V-071, V-074)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from serq.kernels.ascend.graph_mode import GraphConfig, GraphMode
from serq.kernels.ascend.padding import PaddingError, pad_for_sequence_parallelism


@dataclass(frozen=True, slots=True)
class BatchDescriptor:
    """The shape a batch executes with: the runtime mode, padded tokens and, for full graphs, padded rows."""

    mode: GraphMode
    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class RankState:
    """What one data-parallel rank publishes before a step: its padded tokens and its graph mode."""

    num_tokens: int
    mode: GraphMode


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A batch's descriptor, and this rank's view of every rank's tokens (None without data parallelism)."""

    descriptor: BatchDescriptor
    tokens_across_ranks: tuple[int, ...] | None = None


class GraphDispatcher:
    """Finds the captured graph for a batch (V-071)."""

    def __init__(self, graphs: GraphConfig, max_num_seqs: int, uniform_query_len: int = 1) -> None:
        self._graphs = graphs
        self._max_num_seqs = max_num_seqs
        self._uniform_query_len = uniform_query_len

    def dispatch(
        self, num_tokens: int, uniform: bool, allowed: Sequence[GraphMode] = tuple(GraphMode)
    ) -> BatchDescriptor:
        """The graph among the ``allowed`` runtime modes; beyond the largest size eager, without padding."""
        mode = self._graphs.mode
        if mode is GraphMode.NONE or num_tokens > self._graphs.max_capture_size:
            return BatchDescriptor(GraphMode.NONE, num_tokens)
        sizes = self._graphs.capture_sizes
        padded = sizes[bisect_left(sizes, num_tokens)]
        if GraphMode.FULL in allowed:
            full = self._full_graph(padded, uniform)
            if full is not None:
                return full
        if GraphMode.PIECEWISE in allowed and mode.mixed_mode is GraphMode.PIECEWISE:
            return BatchDescriptor(GraphMode.PIECEWISE, padded)
        return BatchDescriptor(GraphMode.NONE, num_tokens)

    def _full_graph(self, padded: int, uniform: bool) -> BatchDescriptor | None:
        length = self._uniform_query_len
        if self._graphs.mode is GraphMode.FULL:
            # Graphs of plain FULL are captured for mixed batches only, with as many rows as fit.
            rows = min(padded, self._max_num_seqs)
            fits = not uniform or min(padded // length, self._max_num_seqs) == rows
            return BatchDescriptor(GraphMode.FULL, padded, rows) if fits else None
        captured = length <= padded <= length * self._max_num_seqs
        if uniform and captured and self._graphs.mode.decode_mode is GraphMode.FULL:
            return BatchDescriptor(GraphMode.FULL, padded, min(padded // length, self._max_num_seqs), True)
        return None


@dataclass(frozen=True, slots=True)
class BatchPlanner:
    """Decides how one rank executes its batches.

    ``shards_tokens``: tokens are padded to a multiple of the tensor parallel size (V-070);
    ``speculative``: a batch is a uniform decode only when every row has computed tokens.
    """

    dispatcher: GraphDispatcher
    uniform_query_len: int = 1
    speculative: bool = False
    tensor_parallel_size: int = 1
    shards_tokens: bool = False
    enforce_eager: bool = False

    def is_uniform(self, computed: Sequence[int], scheduled: Sequence[int]) -> bool:
        """Whether every row has exactly the length of a decode (V-071)."""
        longest = max(scheduled, default=0)
        uniform = longest == self.uniform_query_len and sum(scheduled) == longest * len(scheduled)
        return uniform and (not self.speculative or all(computed))

    def plan(self, computed: Sequence[int], scheduled: Sequence[int]) -> ExecutionPlan:
        """How a rank on its own executes the batch."""
        return ExecutionPlan(self._dispatch(self._tokens(scheduled), self.is_uniform(computed, scheduled)))

    def state(self, computed: Sequence[int], scheduled: Sequence[int]) -> RankState:
        """What the rank publishes to the others."""
        descriptor = self.plan(computed, scheduled).descriptor
        return RankState(descriptor.num_tokens, descriptor.mode)

    def plan_without_agreement(
        self, computed: Sequence[int], scheduled: Sequence[int], ranks: int
    ) -> ExecutionPlan:
        """The plan when ranks skip the all-reduce: each assumes its own count for all of them (V-075)."""
        descriptor = self.plan(computed, scheduled).descriptor
        return ExecutionPlan(descriptor, (descriptor.num_tokens,) * ranks)

    def plan_with_ranks(
        self, computed: Sequence[int], scheduled: Sequence[int], others: Sequence[RankState]
    ) -> ExecutionPlan:
        """The plan after the ranks agreed: the most tokens, the least mode (V-074).

        A rank whose own mode was eager does not pad to the others' tokens, so the views of the ranks differ.
        Raises :class:`PaddingError` when the agreed count is not one that a graph was captured for.
        """
        own = self.state(computed, scheduled)
        ranks = (own, *others)
        mode = min((rank.mode for rank in ranks), key=lambda mode: int(mode.value))
        most = max(rank.num_tokens for rank in ranks)
        if own.mode is not GraphMode.NONE or self.shards_tokens:
            view = (most,) * len(ranks)
        else:
            view = tuple(rank.num_tokens for rank in ranks)
        descriptor = self._dispatch(view[0], self.is_uniform(computed, scheduled), (mode,))
        if descriptor.num_tokens != view[0]:
            raise PaddingError(f"ranks agreed on {view[0]} tokens, but the graph has {descriptor.num_tokens}")
        return ExecutionPlan(descriptor, view)

    def _tokens(self, scheduled: Sequence[int]) -> int:
        return pad_for_sequence_parallelism(sum(scheduled), self.tensor_parallel_size, self.shards_tokens)

    def _dispatch(
        self, num_tokens: int, uniform: bool, allowed: Sequence[GraphMode] = tuple(GraphMode)
    ) -> BatchDescriptor:
        if self.enforce_eager:
            return BatchDescriptor(GraphMode.NONE, num_tokens)
        return self.dispatcher.dispatch(num_tokens, uniform, allowed)
