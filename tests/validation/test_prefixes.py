"""Prompts that begin alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from serq.errors import DataError
from serq.validation.prefixes import SharedPrefix, known_prefixes, prompts, read_prefixes
from tests.shared import shared

HEADER = "request,earlier,tokens\n"


def test_prompts_are_equal_where_they_share(tmp_path: Path) -> None:
    path = tmp_path / "prefixes.csv"
    path.write_text(HEADER + "1,0,32\n\n2,1,40\n")
    lengths = [64, 48, 50, 10]
    prefixes = read_prefixes(path, lengths)
    assert prefixes == (SharedPrefix(1, 0, 32), SharedPrefix(2, 1, 40))
    assert [sequence.runs for sequence in prompts(lengths, prefixes)] == [
        (("prompt 0", 0, 64),),
        (("prompt 0", 0, 32), ("prompt 1", 32, 16)),
        (("prompt 0", 0, 32), ("prompt 1", 32, 8), ("prompt 2", 40, 10)),
        (("prompt 3", 0, 10),),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n", ":1: expected the header"),
        (HEADER + "1,0\n", ":2: expected three whole numbers"),
        (HEADER + "1,0,-3\n", ":2: expected three whole numbers"),
        (HEADER + "0,1,3\n", ":2: `earlier` must come before `request`"),
        (HEADER + "2,0,3\n", ":2: `earlier` must come before `request`"),
        (HEADER + "1,0,11\n", ":2: 11 tokens are more than one of the two prompts has"),
        (HEADER + "1,0,3\n1,0,4\n", ":3: request 1 has a row already"),
    ],
)
def test_a_file_that_cannot_be(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prefixes.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_prefixes(path, [10, 20])
    assert str(caught.value).startswith(f"{path}{said}")


def test_only_the_prompts_of_a_public_workload_are_known() -> None:
    assert known_prefixes([]) is None
    assert known_prefixes([100] * 300) is None


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("RTX4090/Llama-3.1-8B", 19_520), ("RTXPRO6000/Qwen3-32B", 20_448)],
)
def test_the_workload_of_a_handed_run_is_recognised(name: str, tokens: int) -> None:
    lines = shared("data", "measured", name, "run", "requests.jsonl").read_text().splitlines()
    lengths = [json.loads(line)["input_toks"] for line in lines]
    found = known_prefixes(lengths)
    assert found is not None
    workload, prefixes = found
    assert workload.startswith("sharegpt-")
    # 32 of 300 prompts, 7.6 and 7.9 % of the prompt tokens; whole blocks of 16.
    assert len(prefixes) == 32 and sum(prefix.tokens for prefix in prefixes) == tokens
    assert round(tokens / sum(lengths), 3) == (0.076 if "Llama" in name else 0.079)
    assert all(prefix.tokens % 16 == 0 and prefix.earlier < prefix.request for prefix in prefixes)
    assert all(prefix.tokens <= min(lengths[prefix.request], lengths[prefix.earlier]) for prefix in prefixes)
    # The first 150 requests of it, and another order.
    shorter = known_prefixes(lengths[:150])
    assert shorter is not None and max(prefix.request for prefix in shorter[1]) < 150
    assert known_prefixes(lengths[::-1]) is None
