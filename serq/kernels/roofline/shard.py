"""One rank's share of a model, and which ways of sharing there are (as vLLM shares it)."""

from __future__ import annotations

from dataclasses import dataclass

from serq.kernels.catalogue.models import ModelShape


@dataclass(frozen=True, slots=True)
class Shard:
    """A model on ``tensor_parallel_size`` ranks, ``data_parallel_size`` times.

    KV heads are replicated where there are fewer of them than ranks. Routed experts are shared by all
    tensor- and data-parallel ranks together: whole experts where ``expert_parallel``, else a slice of each.
    """

    model: ModelShape
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel: bool = False

    @property
    def expert_ranks(self) -> int:
        """Ranks that share the routed experts."""
        return self.tensor_parallel_size * self.data_parallel_size

    @property
    def num_heads(self) -> int:
        """Query heads of a rank."""
        return self.model.num_heads // self.tensor_parallel_size

    @property
    def num_kv_heads(self) -> int:
        """KV heads of a rank."""
        return max(1, self.model.num_kv_heads // self.tensor_parallel_size)

    @property
    def gdn_value_heads(self) -> int:
        """Value heads of a rank in a Gated DeltaNet layer."""
        return self.model.gdn_value_heads // self.tensor_parallel_size

    @property
    def gdn_key_heads(self) -> int:
        """Key heads of a rank in a Gated DeltaNet layer."""
        return self.model.gdn_key_heads // self.tensor_parallel_size

    @property
    def attention_weights(self) -> float:
        """Parameters of a rank in the projections of one full-attention layer."""
        model = self.model
        queries = self.num_heads * (3 if model.attention_output_gate else 2)
        return model.hidden_size * model.head_dim * (queries + 2 * self.num_kv_heads)

    @property
    def expert_weights(self) -> float:
        """Parameters of a rank in the routed experts of one layer."""
        return self.model.num_experts * self.model.expert_weights / self.expert_ranks

    @property
    def parameters(self) -> float:
        """Parameters that a rank holds, norms aside."""
        model, ranks = self.model, self.tensor_parallel_size
        tables = model.embedding_weights * (1 if model.tied_embeddings else 2) / ranks
        return (
            tables
            + model.full_attention_layers * self.attention_weights
            + model.gdn_layers * model.gdn_weights / ranks
            + model.num_layers * (model.dense_mlp_weights / ranks + self.expert_weights)
        )

    def fault(self) -> tuple[str, str] | None:
        """Why the model cannot be shared so, and what could be done; None: it can."""
        model, ranks = self.model, self.tensor_parallel_size
        widths = {
            "query heads": model.num_heads,
            "key heads of its linear layers": model.gdn_key_heads,
            "value heads of its linear layers": model.gdn_value_heads,
            "columns of its MLP": model.intermediate_size,
            "columns of its shared expert": model.shared_expert_intermediate_size,
        }
        for what, width in widths.items():
            if width % ranks:
                return f"{model.name} has {width} {what}, which {ranks} ranks cannot share", self._sizes()
        heads = model.num_kv_heads
        if heads % ranks and ranks % heads:
            message = f"{model.name} has {heads} KV heads, which {ranks} ranks can neither share nor repeat"
            return message, self._sizes()
        shared = model.num_experts if self.expert_parallel else model.expert_intermediate_size
        if model.num_experts and shared % self.expert_ranks:
            what = "experts" if self.expert_parallel else "columns of an expert"
            message = f"{model.name} has {shared} {what}, which {self.expert_ranks} ranks cannot share"
            return message, self._sizes()
        return None

    def _sizes(self) -> str:
        fitting = [
            str(size)
            for size in range(1, self.model.num_heads + 1)
            if Shard(self.model, size, self.data_parallel_size, self.expert_parallel)._divides()
        ]
        return f"`tensor_parallel_size` may be {', '.join(fitting)}" if fitting else "no size would do"

    def _divides(self) -> bool:
        model, ranks = self.model, self.tensor_parallel_size
        widths = (
            model.num_heads, model.gdn_key_heads, model.gdn_value_heads, model.intermediate_size,
            model.shared_expert_intermediate_size,
        )  # fmt: skip
        shared = model.num_experts if self.expert_parallel else model.expert_intermediate_size
        heads = model.num_kv_heads
        return (
            not any(width % ranks for width in widths)
            and (heads % ranks == 0 or ranks % heads == 0)
            and not (model.num_experts and shared % self.expert_ranks)
        )
