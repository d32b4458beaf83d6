"""Every handed vllm-ascend recording, replayed."""

import json
from pathlib import Path

import pytest

from serq.errors import DataError
from serq.oracle.ascend import check_ascend, replay_ascend

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_model_does_what_the_recording_says(path: Path) -> None:
    assert check_ascend(json.loads(path.read_text())) is None


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="attn_state"):
        replay_ascend({"kind": "schd"})


def test_a_broken_recording_is_an_error_that_names_what_is_missing() -> None:
    with pytest.raises(DataError, match="needs 'cases'"):
        replay_ascend({"kind": "split"})
    with pytest.raises(DataError, match="cannot be replayed"):
        replay_ascend({"kind": "split", "cases": [None]})
    with pytest.raises(DataError, match="expected"):
        check_ascend({"kind": "split", "cases": []})


def test_a_difference_is_found() -> None:
    document = json.loads((RECORDINGS[0].parent / "srf_seed_example_aging_3ms.json").read_text())
    document["expected"]["order"][2]["id"] = "x"
    found = check_ascend(document)
    assert found is not None
    assert found.path == "order[2].id"
