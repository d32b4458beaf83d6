"""How an engine lays the rows of a step out on a device: the interface that every engine's layout has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the words of the interface only: its users are many, and few lay steps out
    from serq.kernels.ascend.attention_shape import AttentionShape
    from serq.kernels.ascend.gdn import GatedDeltaNetShape
    from serq.kernels.ascend.graph_mode import GraphMode
    from serq.kernels.operator_call import OperatorCall
    from serq.kernels.step_batch import StepBatch


class BatchLayout(Protocol):
    """One step laid out on one rank."""

    @property
    def order(self) -> tuple[int, ...]:
        """The rows of the batch in device order, each by its place in the batch."""

    @property
    def num_tokens(self) -> int:
        """Tokens the layers compute, padding included."""

    @property
    def graph(self) -> GraphMode:
        """The runtime graph mode."""

    def attention_calls(self, shape: AttentionShape) -> tuple[OperatorCall, ...]:
        """The calls of one full-attention layer, the cache write included."""

    def gated_delta_net_calls(self, shape: GatedDeltaNetShape) -> tuple[OperatorCall, ...]:
        """The calls of one Gated DeltaNet layer."""


class LayoutEngine(Protocol):
    """Lays steps out the way one engine does."""

    def layout(self, batch: StepBatch) -> BatchLayout:
        """The layout of a batch that has at least one row."""
