"""The shapes of models: layers, heads, widths (models.csv, a source a row)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from serq.kernels.catalogue import table


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only language model; the vision tower and draft layers of a family are not counted.

    Layers without full attention are Gated DeltaNet layers. ``intermediate_size`` is 0 for a mixture of
    experts, ``num_experts`` 0 for a dense model, ``gdn_*`` 0 for a model without such layers. ``qk_norm``:
    queries and keys are normalised per head.
    """

    name: str
    num_layers: int
    full_attention_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    attention_output_gate: bool
    qk_norm: bool
    gdn_key_heads: int
    gdn_value_heads: int
    gdn_key_dim: int
    gdn_value_dim: int
    gdn_conv_width: int
    intermediate_size: int
    num_experts: int
    experts_per_token: int
    expert_intermediate_size: int
    shared_expert_intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    source: str

    @property
    def gdn_layers(self) -> int:
        """Layers of Gated DeltaNet."""
        return self.num_layers - self.full_attention_layers

    @property
    def qkv_width(self) -> int:
        """Outputs of the query, key and value projections together; an output gate doubles the query's."""
        queries = self.num_heads * (2 if self.attention_output_gate else 1)
        return (queries + 2 * self.num_kv_heads) * self.head_dim

    @property
    def gdn_conv_channels(self) -> int:
        """Channels of the convolution of a Gated DeltaNet layer: queries, keys and values."""
        return 2 * self.gdn_key_heads * self.gdn_key_dim + self.gdn_value_heads * self.gdn_value_dim

    @property
    def gdn_projection_width(self) -> int:
        """Outputs of the input projections of a Gated DeltaNet layer: conv channels, gate z, a and b."""
        return self.gdn_conv_channels + self.gdn_value_heads * self.gdn_value_dim + 2 * self.gdn_value_heads

    @property
    def attention_weights(self) -> int:
        """Parameters of the projections of one full-attention layer."""
        return self.hidden_size * (self.qkv_width + self.num_heads * self.head_dim)

    @property
    def gdn_weights(self) -> int:
        """Parameters of the projections and the convolution of one Gated DeltaNet layer."""
        values = self.gdn_value_heads * self.gdn_value_dim
        projections = self.hidden_size * (self.gdn_projection_width + values)
        return projections + self.gdn_conv_channels * self.gdn_conv_width

    @property
    def expert_weights(self) -> int:
        """Parameters of one routed expert."""
        return 3 * self.hidden_size * self.expert_intermediate_size

    @property
    def dense_mlp_weights(self) -> int:
        """Parameters of a layer's MLP that every token meets: dense or shared expert, and the router."""
        if not self.num_experts:
            return 3 * self.hidden_size * self.intermediate_size
        shared = 3 * self.hidden_size * self.shared_expert_intermediate_size
        gate = self.hidden_size if self.shared_expert_intermediate_size else 0
        return self.hidden_size * self.num_experts + shared + gate

    @property
    def embedding_weights(self) -> int:
        """Parameters of one vocabulary table."""
        return self.vocab_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """Parameters of the text model but for norms, which are less than 0.1 %."""
        tables = self.embedding_weights * (1 if self.tied_embeddings else 2)
        layers = (
            self.full_attention_layers * self.attention_weights
            + self.gdn_layers * self.gdn_weights
            + self.num_layers * (self.dense_mlp_weights + self.num_experts * self.expert_weights)
        )
        return tables + layers

    def same_architecture(self, other: ModelShape) -> bool:
        """Whether the two have the same layers, whatever they are called."""
        return replace(self, name="", source="") == replace(other, name="", source="")


@cache
def models() -> dict[str, ModelShape]:
    """Every model of the catalogue by name."""
    return {row["model"]: _shape(row) for row in table("models")}


def model_named(name: str) -> ModelShape | None:
    """The shape of a model by a name such as ``Qwen/Qwen3-32B``, its variants included; None: not known.

    What follows the name of the catalogue after a dash says how it was trained (``-Instruct-2507``).
    """
    called = name.rstrip("/").rpartition("/")[2].lower().removeprefix("meta-")
    found = [key for key in models() if f"{called}-".startswith(f"{key.lower()}-")]
    return models()[max(found, key=len)] if found else None


def _shape(row: dict[str, str]) -> ModelShape:
    texts = ("model", "source", "attention_output_gate", "qk_norm", "tied_embeddings")
    numbers = {name: int(value) for name, value in row.items() if name not in texts}
    return ModelShape(
        name=row["model"],
        attention_output_gate=row["attention_output_gate"] == "true",
        qk_norm=row["qk_norm"] == "true",
        tied_embeddings=row["tied_embeddings"] == "true",
        source=row["source"],
        **numbers,
    )
