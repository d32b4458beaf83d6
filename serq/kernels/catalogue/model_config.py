"""Shapes of models that the catalogue lacks, from the `config.json` that they are published with."""

from __future__ import annotations

from typing import Any, Final

from serq.kernels.catalogue.models import ModelShape

_FIELDS: Final = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_heads": "num_attention_heads",
    "vocab_size": "vocab_size",
}


def shape_of_config(name: str, config: dict[str, Any], source: str) -> ModelShape:
    """The shape that a ``config.json`` of the Hugging Face hub describes.

    Raises ValueError, naming the field, where one is missing or no whole number above 0, and for layers
    other than full attention with a dense MLP or routed experts.
    """
    kinds = config.get("layer_types") or ["full_attention"]
    if set(kinds) != {"full_attention"}:
        raise ValueError("`layer_types` has layers other than full_attention")
    if config.get("shared_expert_intermediate_size") or config.get("n_shared_experts"):
        raise ValueError("shared experts are not read from a configuration")
    numbers = {field: _whole(config, key) for field, key in _FIELDS.items()}
    experts_key = "num_experts" if "num_experts" in config else "num_local_experts"
    experts = _whole(config, experts_key) if config.get(experts_key) else 0
    width = "moe_intermediate_size" if "moe_intermediate_size" in config else "intermediate_size"
    return ModelShape(
        name=name,
        full_attention_layers=numbers["num_layers"],
        num_kv_heads=_whole(config, "num_key_value_heads", numbers["num_heads"]),
        head_dim=_whole(config, "head_dim", numbers["hidden_size"] // numbers["num_heads"]),
        attention_output_gate=False,
        qk_norm=str(config.get("model_type", "")).startswith("qwen3"),
        gdn_key_heads=0,
        gdn_value_heads=0,
        gdn_key_dim=0,
        gdn_value_dim=0,
        gdn_conv_width=0,
        intermediate_size=0 if experts else _whole(config, "intermediate_size"),
        num_experts=experts,
        experts_per_token=_whole(config, "num_experts_per_tok") if experts else 0,
        expert_intermediate_size=_whole(config, width) if experts else 0,
        shared_expert_intermediate_size=0,
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        source=source,
        **numbers,
    )


def _whole(config: dict[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{key}` must be a whole number above 0, not {value!r}")
    return value
