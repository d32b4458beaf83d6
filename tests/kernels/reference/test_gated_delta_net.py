"""The delta rule in chunks against the rule token by token, and both against the formula written out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.kernels.reference.gated_delta_net import causal_conv1d, chunked_rule, recurrent_rule

torch = pytest.importorskip("torch", reason="needs torch (pip install 'serq[torch]')")


def step(lengths: list[int], key_heads: int, groups: int, seed: int, dim: int = 8) -> dict[str, Any]:
    torch.manual_seed(seed)
    tokens, heads = sum(lengths), key_heads * groups
    wide = {"dtype": torch.float64}
    query, key = (
        torch.nn.functional.normalize(torch.randn(tokens, key_heads, dim, **wide), dim=-1) for _ in range(2)
    )
    return {
        "query": query,
        "key": key,
        "value": torch.randn(tokens, heads, dim, **wide),
        "beta": torch.rand(tokens, heads, **wide),
        "g": -torch.rand(tokens, heads, **wide),
        "scale": dim**-0.5,
        "state": torch.randn(len(lengths), heads, dim, dim, **wide),
    }


def formula(made: dict[str, Any], lengths: list[int]) -> tuple[Any, Any]:
    """S <- e^g S; u = beta (v - S k); S <- S + u k'; o = scale S q: one token, one head at a time."""
    out, state = torch.zeros_like(made["value"]), made["state"].clone()
    groups, token = made["value"].shape[1] // made["key"].shape[1], 0
    for row, length in enumerate(lengths):
        for _ in range(length):
            for head in range(out.shape[1]):
                q, k = made["query"][token, head // groups], made["key"][token, head // groups]
                s = state[row, head] * torch.exp(made["g"][token, head])
                u = made["beta"][token, head] * (made["value"][token, head] - s @ k)
                state[row, head] = s + torch.outer(u, k)
                out[token, head] = made["scale"] * (state[row, head] @ q)
            token += 1
    return out, state


def shared(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in made.items() if name != "state"}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 21), min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_chunks_and_tokens_give_the_formula(lengths: list[int], heads: int, groups: int, seed: int) -> None:
    made = step(lengths, heads, groups, seed)
    expected, final = formula(made, lengths)
    out, state = chunked_rule(**shared(made), initial_state=made["state"], lengths=lengths, chunk=8)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(state, final, rtol=1e-9, atol=1e-11)
    slots = [row for row, length in enumerate(lengths) for _ in range(length)]
    found = recurrent_rule(**made, lengths=lengths, slots=slots)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(made["state"], final, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 150])
def test_full_chunks_of_64(tokens: int) -> None:
    made = step([tokens], 2, 2, tokens)
    out, state = chunked_rule(**shared(made), initial_state=made["state"], lengths=[tokens])
    found = recurrent_rule(**made, lengths=[tokens], slots=[0] * tokens)
    assert (out - found).abs().max() < 1e-12
    assert (state - made["state"]).abs().max() < 1e-12


def test_a_row_that_verifies_drafts_begins_behind_the_accepted_ones() -> None:
    """Three tokens a row; two were accepted before: the state of slot 1 of the row is where it begins."""
    made = step([3], 1, 1, 7)
    slots = made["state"].repeat(4, 1, 1, 1) * torch.arange(1, 5, dtype=torch.float64).view(4, 1, 1, 1)
    begun = {**made, "state": slots[1:2].clone()}
    expected, final = formula(begun, [3])
    out = recurrent_rule(**{**made, "state": slots}, lengths=[3], slots=[0, 1, 2], accepted=[2])
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(slots[2:3], final, rtol=1e-9, atol=1e-11)


def test_the_convolution_goes_on_where_it_was() -> None:
    """All tokens of a request at once are the same as the first ones and then the rest."""
    torch.manual_seed(2)
    x, weight = torch.randn(9, 6, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    padded = torch.cat((torch.zeros(3, 6, dtype=torch.float64), x))
    plain = torch.stack([(padded[t : t + 4] * weight).sum(0) for t in range(9)])
    expected = plain * torch.sigmoid(plain)
    state, out = torch.ones(2, 3, 6, dtype=torch.float64), torch.empty_like(x)
    for start, end, fresh in ((0, 5, True), (5, 9, False)):
        causal_conv1d(
            out[start:end], x[start:end], weight, conv_state=state,
            query_start_loc_opt=torch.tensor([0, end - start]), cache_indices_opt=torch.tensor([1]),
            initial_state_mode_opt=torch.tensor([not fresh]),
        )  # fmt: skip
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(state[1], x[6:])
    assert (state[0] == 1).all()
