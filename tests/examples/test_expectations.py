"""Every example says what to expect of it, and it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

import serq
from serq.testing import check_file, expects
from tests.shared import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.sq"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_does_what_it_says(path: Path) -> None:
    assert expects(path), "an example has an `expect`"
    verdict = check_file(path)
    assert not verdict.failed, verdict.render()


@pytest.mark.parametrize(
    ("name", "sets", "order"),
    [
        ("aging.sq", {"max_wait": 0}, [0, 2, 3, 4, 5, 6, 7, 8, 9, 1]),
        # taken in at 1 ms; room at 6 ms (waited 5) and 8 ms (waited 7)
        ("aging.sq", {"max_wait": 6}, [0, 2, 3, 4, 1, 5, 6, 7, 8, 9]),
        ("aging.sq", {"max_wait": 4.5}, [0, 2, 3, 1, 4, 5, 6, 7, 8, 9]),
        ("batch_jobs.sq", {"learns": 0}, [0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]),
        ("batch_jobs.sq", {"room": 20000}, [0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]),
    ],
)
def test_what_the_examples_say_of_their_variants(name: str, sets: dict[str, float], order: list[int]) -> None:
    report = serq.run(serq.compile(ROOT / "examples" / "vendors" / name, sets=sets))
    assert report.records.series["served"].values == order
