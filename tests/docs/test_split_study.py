"""The tables of docs/split-study.md are those that its script makes, and a few short runs agree with them."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from tests.shared import ROOT


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("split_study", ROOT / "docs" / "split_study.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_script_makes(study: ModuleType) -> None:
    page = study.PAGE.read_text("utf-8")
    made = {name: make() for name, make in study.SMALL.items()}
    assert study.refreshed(page, made) == page, "run `python docs/split_study.py`"


def test_every_table_has_its_place_and_is_filled(study: ModuleType) -> None:
    found = re.findall(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", study.PAGE.read_text("utf-8"), re.DOTALL)
    assert sorted(name for name, _ in found) == sorted({*study.SMALL, *study.LONG})
    assert all(text for _, text in found)


@pytest.mark.parametrize(("model", "share", "gain"), [("Qwen3.5-27B", (0.07, 0.11), (0.01, 0.03)),
                                                      ("Qwen3-14B", (0.22, 0.30), (0.05, 0.10))])  # fmt: skip
def test_short_runs_have_the_share_and_the_gain_of_the_page(
    study: ModuleType, model: str, share: tuple[float, float], gain: tuple[float, float]
) -> None:
    """Attention of 27B is the 8 % or so of the pull request; a gain is its share times some 16 to 20 %."""
    one, two = (study.run(model, 32, form, 0.0, 1, horizon=250.0) for form in (0, 1))
    assert one.mixed > 0.85
    assert share[0] < one.attention < share[1]
    assert gain[0] < two.throughput / one.throughput - 1.0 < gain[1]
    assert two.tpot < one.tpot


def test_a_graph_that_saves_as_much_as_two_calls_takes_the_gain(study: ModuleType) -> None:
    """20 ms a mixed step are more than the 9.5 ms that two calls save there."""
    one, two = (study.run("Qwen3.5-27B", 32, f, 0.02 * f, 1, horizon=250.0) for f in (0, 1))
    assert two.throughput < one.throughput
