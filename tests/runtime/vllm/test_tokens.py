"""Token identity by runs, and the keys that tell prefixes apart."""

from __future__ import annotations

import random

import pytest

from serq.runtime.vllm.tokens import OutputScript, Piece, PrefixHasher, PrefixKeys, TokenSequence


def flat(pieces: list[Piece]) -> list[tuple[object, int]]:
    return [(source, start + i) for source, start, length in pieces for i in range(length)]


def test_runs_are_maximal() -> None:
    sequence = TokenSequence([("a", 0, 3), ("a", 3, 2), ("b", 5, 1), ("b", 7, 1), ("a", 5, 0)])
    assert sequence.runs == (("a", 0, 5), ("b", 5, 1), ("b", 7, 1))
    assert sequence.length == 7


def test_prefix_cuts_runs() -> None:
    sequence = TokenSequence([("a", 4, 3), ("b", 0, 3)])
    assert sequence.prefix(5) == (("a", 4, 3), ("b", 0, 2))
    assert sequence.prefix(3) == (("a", 4, 3),)
    assert sequence.prefix(0) == ()


@pytest.mark.parametrize("seed", range(20))
def test_keys_are_equal_exactly_where_whole_prefixes_are(seed: int) -> None:
    """Against token lists: two prefixes of whole blocks have one key if and only if their tokens agree."""
    rng = random.Random(seed)
    size = rng.choice([1, 3, 4])
    hasher = PrefixHasher(size)
    tokens_by_key: dict[int, list[tuple[object, int]]] = {}
    for _ in range(40):
        pieces = [(rng.choice("abr"), rng.choice([0, 0, 1, 4]), rng.randint(1, 9)) for _ in range(3)]
        keys = PrefixKeys(hasher, TokenSequence(pieces)).keys
        tokens = flat(pieces)
        assert len(keys) == len(tokens) // size
        for index, key in enumerate(keys):
            prefix = tokens[: (index + 1) * size]
            assert tokens_by_key.setdefault(key, prefix) == prefix
    prefixes = [tuple(prefix) for prefix in tokens_by_key.values()]
    assert len(set(prefixes)) == len(prefixes)


def test_keys_grow_with_the_sequence_as_if_it_had_been_whole() -> None:
    hasher = PrefixHasher(4)
    growing = TokenSequence([("p", 0, 6)])
    keys = PrefixKeys(hasher, growing)
    script = OutputScript("o", end_at=5)
    for index in range(9):
        growing.append(*script.token(index))
        keys.extend()
    whole = TokenSequence([("p", 0, 6), ("o", 0, 5), ("eos", 0, 1), ("o", 6, 3)])
    assert growing.runs == whole.runs
    assert keys.keys == PrefixKeys(hasher, whole).keys
    assert len(keys.keys) == 15 // 4


@pytest.mark.parametrize(
    "script",
    [OutputScript("o"), OutputScript("o", end_at=4, end_token="stop"), OutputScript("o", repeat_at=3)],
)
@pytest.mark.parametrize(("start", "length"), [(0, 8), (3, 4), (5, 2), (2, 0)])
def test_quoting_an_output_is_saying_it_token_by_token(script: OutputScript, start: int, length: int) -> None:
    quoted, said = TokenSequence(), TokenSequence()
    script.append_to(quoted, start, length)
    for index in range(start, start + length):
        said.append(*script.token(index))
    assert quoted.runs == said.runs


def test_a_prompt_of_the_longest_kind_is_cheap() -> None:
    hasher = PrefixHasher(128)
    sequence = TokenSequence((hash_id, 0, 512) for hash_id in range(240))
    assert len(PrefixKeys(hasher, sequence).keys) == 960
