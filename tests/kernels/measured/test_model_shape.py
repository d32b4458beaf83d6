"""Shapes of models: by name, from a configuration file, and what follows from them."""

from __future__ import annotations

import pytest

from serq.kernels.measured.model_shape import CATALOGUE, known_shape, shape_of_config

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
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("/models/Qwen3-32B/", "qwen3-32b"),
    ],
)
def test_a_model_is_known_by_its_name(name: str, key: str) -> None:
    assert known_shape(name) is CATALOGUE[key]


def test_an_unknown_model() -> None:
    assert known_shape("Qwen/Qwen3-8Bx") is None


def test_the_catalogue_has_the_parameters_the_names_say() -> None:
    # Parameter counts from the model cards, in 10^9.
    for key, billions in {
        "qwen3-0.6b": 0.596,
        "qwen3-8b": 8.190,
        "qwen3-32b": 32.76,
        "qwen3-30b-a3b": 30.53,
        "qwen3-235b-a22b": 235.09,
        "llama-3.1-8b": 8.03,
        "llama-3.1-70b": 70.55,
        "llama-3.2-1b": 1.24,
        "llama-3.2-3b": 3.21,
        "mistral-7b": 7.25,
        "mixtral-8x7b": 46.70,
        "qwen2.5-7b": 7.62,
        "qwen2.5-72b": 72.71,
    }.items():
        assert CATALOGUE[key].weight_bytes(1) / 2e9 == pytest.approx(billions, rel=0.005), key


def test_weights_of_one_device() -> None:
    # Whole experts on half the devices, the rest on every device.
    shape = CATALOGUE["qwen3-30b-a3b"]
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert shape.weight_bytes(1) - shape.weight_bytes(1, 2) == experts / 2
    assert CATALOGUE["qwen3-32b"].weight_bytes(2) / 1e9 == pytest.approx(32.76, rel=0.001)


def test_a_shape_from_a_configuration_file() -> None:
    assert shape_of_config("x", CONFIG).same_architecture(CATALOGUE["qwen3-30b-a3b"])
    dense = {key: value for key, value in CONFIG.items() if "exp" not in key and "head_dim" not in key}
    shape = shape_of_config("x", {**dense, "model_type": "llama", "num_key_value_heads": None})
    assert (shape.experts, shape.intermediate, shape.head_dim, shape.kv_heads) == (0, 6144, 64, 32)
    assert not shape.qk_norm


@pytest.mark.parametrize(
    ("key", "value"), [("hidden_size", "2048"), ("num_hidden_layers", None), ("vocab_size", 0)]
)
def test_a_configuration_that_lacks_something(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"`{key}` must be a whole number"):
        shape_of_config("x", {**CONFIG, key: value})


def test_kv_bytes_of_a_token() -> None:
    # 2 (K, V) x 64 layers x 8 heads x 128 x 2 bytes; half of it on each of two devices.
    assert CATALOGUE["qwen3-32b"].kv_bytes_per_token(1) == 262_144
    assert CATALOGUE["qwen3-32b"].kv_bytes_per_token(2) == 131_072
    assert CATALOGUE["qwen3-32b"].kv_bytes_per_token(16) == 2 * 64 * 128 * 2
