"""The shapes of the models that operator tables were measured for: what a table of one layer cannot say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

BYTES = 2
"""Bytes of a weight, an activation and a KV value: bfloat16."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only transformer.

    ``intermediate`` is the width of the MLP, or of one of ``experts`` (0: a dense model). ``qk_norm``:
    queries and keys are normalised per head (Qwen3). ``tied``: the output projection is the embedding.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    experts: int = 0
    experts_per_token: int = 0
    qk_norm: bool = False
    tied: bool = False

    def same_architecture(self, other: ModelShape) -> bool:
        """Whether a layer of the two is the same, whatever the models are called."""
        return replace(self, name="") == replace(other, name="")

    def kv_bytes_per_token(self, tensor_parallel: int) -> int:
        """Bytes of KV cache a token takes on one device; KV heads are copied where there are too few."""
        heads = max(self.kv_heads // tensor_parallel, 1)
        return 2 * self.layers * heads * self.head_dim * BYTES

    def weight_bytes(self, tensor_parallel: int, expert_parallel: int = 1) -> float:
        """Bytes of weights on one device."""
        attention = (2 * self.heads + 2 * self.kv_heads) * self.head_dim * self.hidden
        mlp = 3 * self.hidden * self.intermediate
        split = tensor_parallel
        if self.experts:
            mlp *= self.experts
            split = expert_parallel if expert_parallel > 1 else tensor_parallel
        norms = 2 * self.hidden + 2 * self.head_dim * self.qk_norm + self.hidden * self.experts
        layer = attention / tensor_parallel + mlp / split + norms
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden / tensor_parallel
        return BYTES * (self.layers * layer + embeddings + self.hidden)


def _qwen3(name: str, layers: int, hidden: int, heads: int, kv: int, width: int, **other: Any) -> ModelShape:
    return ModelShape(name, layers, hidden, heads, kv, 128, width, 151936, qk_norm=True, **other)


def _llama3(name: str, layers: int, hidden: int, heads: int, dim: int, width: int, tied: bool) -> ModelShape:
    return ModelShape(name, layers, hidden, heads, 8, dim, width, 128256, tied=tied)


def _qwen25(name: str, layers: int, hidden: int, heads: int, kv: int, width: int) -> ModelShape:
    return ModelShape(name, layers, hidden, heads, kv, 128, width, 152064)


CATALOGUE: Final = {
    shape.name: shape
    for shape in (
        _qwen3("qwen3-0.6b", 28, 1024, 16, 8, 3072, tied=True),
        _qwen3("qwen3-1.7b", 28, 2048, 16, 8, 6144, tied=True),
        _qwen3("qwen3-4b", 36, 2560, 32, 8, 9728, tied=True),
        _qwen3("qwen3-8b", 36, 4096, 32, 8, 12288),
        _qwen3("qwen3-14b", 40, 5120, 40, 8, 17408),
        _qwen3("qwen3-32b", 64, 5120, 64, 8, 25600),
        _qwen3("qwen3-30b-a3b", 48, 2048, 32, 4, 768, experts=128, experts_per_token=8),
        _qwen3("qwen3-235b-a22b", 94, 4096, 64, 4, 1536, experts=128, experts_per_token=8),
        _qwen25("qwen2.5-7b", 28, 3584, 28, 4, 18944),
        _qwen25("qwen2.5-14b", 48, 5120, 40, 8, 13824),
        _qwen25("qwen2.5-32b", 64, 5120, 40, 8, 27648),
        _qwen25("qwen2.5-72b", 80, 8192, 64, 8, 29568),
        _llama3("llama-3-8b", 32, 4096, 32, 128, 14336, False),
        _llama3("llama-3.1-8b", 32, 4096, 32, 128, 14336, False),
        _llama3("llama-3.1-70b", 80, 8192, 64, 128, 28672, False),
        _llama3("llama-3.2-1b", 16, 2048, 32, 64, 8192, True),
        _llama3("llama-3.2-3b", 28, 3072, 24, 128, 8192, True),
        _llama3("llama-3.3-70b", 80, 8192, 64, 128, 28672, False),
        ModelShape("mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768),
        ModelShape("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, experts_per_token=2),
    )
}
"""Shapes by the beginning of a model's name, from the configuration files the models are published with."""


def known_shape(model: str) -> ModelShape | None:
    """The shape of a model by its name (``Qwen/Qwen3-32B``), variants of a name included; None: not known."""
    name = model.rstrip("/").rpartition("/")[2].lower().removeprefix("meta-")
    found = [key for key in CATALOGUE if name == key or name.startswith(f"{key}-")]
    return CATALOGUE[max(found, key=len)] if found else None


_FIELDS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "vocabulary": "vocab_size",
}


def shape_of_config(name: str, config: dict[str, Any]) -> ModelShape:
    """The shape that a ``config.json`` of the Hugging Face hub describes.

    Raises ValueError, naming the field, where one is missing or no whole number above 0.
    """
    numbers = {field: _whole(config, key) for field, key in _FIELDS.items()}
    experts_key = "num_experts" if "num_experts" in config else "num_local_experts"
    experts = _whole(config, experts_key) if config.get(experts_key) else 0
    width = "moe_intermediate_size" if experts and "moe_intermediate_size" in config else "intermediate_size"
    return ModelShape(
        name=name,
        kv_heads=_whole(config, "num_key_value_heads", numbers["heads"]),
        head_dim=_whole(config, "head_dim", numbers["hidden"] // numbers["heads"]),
        intermediate=_whole(config, width),
        experts=experts,
        experts_per_token=_whole(config, "num_experts_per_tok") if experts else 0,
        qk_norm=str(config.get("model_type", "")).startswith("qwen3"),
        tied=bool(config.get("tie_word_embeddings", False)),
        **numbers,
    )


def _whole(config: dict[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{key}` must be a whole number above 0, not {value!r}")
    return value
