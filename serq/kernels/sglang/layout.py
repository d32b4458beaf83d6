"""The layout of SGLang on Ascend: prefills first, then decodes, and the boundary between them.

It mirrors vllm-ascend's: there decodes come first. The boundary is recorded when running decodes are mixed
into a prefill batch; where it is known and the split applies, a mixed step makes two attention calls, the
second with query boundaries that start at 0 again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate

from serq.errors import SerqError
from serq.kernels.ascend.attention_shape import KERNEL_BLOCK_SIZE, AttentionShape
from serq.kernels.ascend.fia import paged_causal_call
from serq.kernels.ascend.gdn import GatedDeltaNetBatch, GatedDeltaNetShape, gated_delta_net_calls
from serq.kernels.ascend.graph_mode import DeviceFamily, GraphMode
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.step_batch import BatchRow, StepBatch


class BoundaryError(SerqError):
    """A boundary between prefills and decodes that does not fit the batch."""


class ForwardMode(Enum):
    """What a batch is made of."""

    EXTEND = "extend"
    DECODE = "decode"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class MixedBoundary:
    """Where the prefills of a mixed batch end, recorded before the decodes are appended."""

    num_prefill_reqs: int
    num_prefill_tokens: int

    def check(self, query_ends: Sequence[int]) -> None:
        """Raises :class:`BoundaryError` unless the boundary splits the batch and agrees with its lengths.

        A wrong boundary would compute attention over the wrong rows without any other sign.
        """
        requests, rows = self.num_prefill_reqs, len(query_ends)
        if not 0 < requests < rows:
            raise BoundaryError(f"{requests} prefill requests do not split a batch of {rows}")
        if query_ends[requests - 1] != self.num_prefill_tokens:
            raise BoundaryError(
                f"the first {requests} requests end at token {query_ends[requests - 1]}, "
                f"the boundary says {self.num_prefill_tokens}"
            )
        if query_ends[-1] - self.num_prefill_tokens != rows - requests:
            raise BoundaryError("every request behind the boundary must have one token")


@dataclass(frozen=True, slots=True)
class SglangLayoutOptions:
    """What a deployment on SGLang says about the layout; ``split_mixed`` is its master switch."""

    max_model_len: int
    device: DeviceFamily = DeviceFamily.A5
    split_mixed: bool = True


@dataclass(frozen=True, slots=True)
class SglangBatchLayout:
    """One step of SGLang on one rank. ``boundary`` is None where it is unknown: then nothing is split."""

    rows: tuple[BatchRow, ...]
    order: tuple[int, ...]
    mode: ForwardMode
    query_lens: tuple[int, ...]
    seq_lens: tuple[int, ...]
    boundary: MixedBoundary | None
    options: SglangLayoutOptions

    @property
    def num_tokens(self) -> int:
        """Tokens the layers compute."""
        return sum(self.query_lens)

    @property
    def graph(self) -> GraphMode:
        """Mixed batches and prefills run eagerly; graphs of decodes are not modelled."""
        return GraphMode.NONE

    @property
    def query_ends(self) -> tuple[int, ...]:
        """Cumulative query lengths, without the leading 0."""
        return tuple(accumulate(self.query_lens))

    def splits(self, shape: AttentionShape) -> bool:
        """Whether a mixed batch makes two attention calls.

        Ascend 950 only, plain causal attention without a window, whole groups of query heads per KV head.
        """
        return (
            self.mode is ForwardMode.MIXED
            and self.boundary is not None
            and self.options.split_mixed
            and self.options.device is DeviceFamily.A5
            and shape.sliding_window is None
            and not shape.sinks
            and shape.num_heads % shape.num_kv_heads == 0
        )

    def attention_calls(self, shape: AttentionShape) -> tuple[OperatorCall, ...]:
        """The attention calls of one layer: one over all rows, or prefills and then decodes."""
        width = -(-self.options.max_model_len // KERNEL_BLOCK_SIZE)
        ends = self.query_ends
        if self.boundary is None or not self.splits(shape):
            return (_with_bool_mask(paged_causal_call(ends, self.seq_lens, shape, width)),)
        self.boundary.check(ends)
        first, tokens = self.boundary.num_prefill_reqs, self.boundary.num_prefill_tokens
        decode_ends = tuple(end - tokens for end in ends[first:])
        return (
            _with_bool_mask(paged_causal_call(ends[:first], self.seq_lens[:first], shape, width)),
            _with_bool_mask(paged_causal_call(decode_ends, self.seq_lens[first:], shape, width)),
        )

    def gated_delta_net_calls(self, shape: GatedDeltaNetShape) -> tuple[OperatorCall, ...]:
        """Linear layers keep one path for prefills and decodes of a mixed batch."""
        if self.mode is ForwardMode.DECODE:
            return gated_delta_net_calls(GatedDeltaNetBatch(decodes=len(self.query_lens)), shape)
        return gated_delta_net_calls(GatedDeltaNetBatch(prefill_lens=self.query_lens), shape)


class SglangLayoutEngine:
    """Lays steps out as SGLang's Ascend backend does."""

    def __init__(self, options: SglangLayoutOptions) -> None:
        self._options = options

    @property
    def options(self) -> SglangLayoutOptions:
        """What the deployment says."""
        return self._options

    def layout(self, batch: StepBatch) -> SglangBatchLayout:
        """Prefills in order, then decodes in order."""
        order = tuple(sorted(range(len(batch.rows)), key=lambda place: batch.rows[place].decode))
        rows = tuple(batch.rows[place] for place in order)
        prefills = [row for row in rows if not row.decode]
        boundary = None
        mode = ForwardMode.EXTEND if prefills else ForwardMode.DECODE
        if prefills and len(prefills) < len(rows):
            mode = ForwardMode.MIXED
            boundary = MixedBoundary(len(prefills), sum(row.query for row in prefills))
        return SglangBatchLayout(
            rows=rows,
            order=order,
            mode=mode,
            query_lens=tuple(row.query for row in rows),
            seq_lens=tuple(row.computed + row.query for row in rows),
            boundary=boundary,
            options=self._options,
        )


def _with_bool_mask(call: OperatorCall) -> OperatorCall:
    """SGLang's causal template has boolean elements."""
    mask = call.argument("atten_mask")
    if isinstance(mask, TensorArgument):
        return replace(call, keywords={**call.keywords, "atten_mask": replace(mask, dtype="bool")})
    return call
