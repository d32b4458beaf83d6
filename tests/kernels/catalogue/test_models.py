"""Shapes of models: by name, from a configuration file, and what follows from them."""

from __future__ import annotations

import pytest

from serq.kernels.catalogue.model_config import shape_of_config
from serq.kernels.catalogue.models import model_named, models

CONFIG = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-A3B"),
        ("/models/Qwen3-32B/", "Qwen3-32B"),
    ],
)
def test_a_model_is_known_by_its_name(name: str, key: str) -> None:
    assert model_named(name) is models()[key]


def test_an_unknown_model() -> None:
    assert model_named("Qwen/Qwen3-8Bx") is None


def test_the_catalogue_has_the_parameters_the_names_say() -> None:
    # Parameter counts from the model cards, in 10^9.
    for key, billions in {
        "Qwen3-0.6B": 0.596,
        "Qwen3-8B": 8.190,
        "Qwen3-32B": 32.76,
        "Qwen3-30B-A3B": 30.53,
        "Qwen3-235B-A22B": 235.09,
        "Llama-3.1-8B": 8.03,
        "Llama-3.1-70B": 70.55,
        "Llama-3.2-1B": 1.24,
        "Llama-3.2-3B": 3.21,
        "Mistral-7B": 7.25,
        "Mixtral-8x7B": 46.70,
        "Qwen2.5-7B": 7.62,
        "Qwen2.5-72B": 72.71,
        "Llama-2-7B": 6.74,
        "Llama-2-70B": 68.98,
        "Phi-mini-MoE": 7.65,
        "Phi-3.5-MoE": 41.87,
    }.items():
        assert models()[key].parameters / 1e9 == pytest.approx(billions, rel=0.005), key


def test_a_shape_from_a_configuration_file() -> None:
    assert shape_of_config("x", CONFIG, "here").same_architecture(models()["Qwen3-30B-A3B"])
    dense = {key: value for key, value in CONFIG.items() if "exp" not in key and "head_dim" not in key}
    shape = shape_of_config("x", {**dense, "model_type": "llama", "num_key_value_heads": None}, "here")
    assert (shape.num_experts, shape.intermediate_size) == (0, 6144)
    assert (shape.head_dim, shape.num_kv_heads, shape.qk_norm) == (64, 32, False)


@pytest.mark.parametrize(
    ("key", "value"), [("hidden_size", "2048"), ("num_hidden_layers", None), ("vocab_size", 0)]
)
def test_a_configuration_that_lacks_something(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"`{key}` must be a whole number"):
        shape_of_config("x", {**CONFIG, key: value}, "here")


@pytest.mark.parametrize(
    "more",
    [
        {"layer_types": ["full_attention", "linear_attention"]},
        {"shared_expert_intermediate_size": 512},
        {"n_shared_experts": 1},
    ],
)
def test_a_configuration_of_layers_that_are_not_read(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"layer_types|shared experts"):
        shape_of_config("x", {**CONFIG, **more}, "here")
