"""Every handed vllm-ascend recording, replayed."""

import json
from pathlib import Path

import pytest

from serq.errors import DataError
from serq.oracle.ascend import REPLAYS, replay_ascend
from serq.oracle.difference import first_difference

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_model_does_what_the_recording_says(path: Path) -> None:
    document = json.loads(path.read_text())
    if document["kind"] not in REPLAYS:
        pytest.skip(f"kind {document['kind']} is not replayed yet")
    assert first_difference(document["expected"], replay_ascend(document)) is None


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="attn_state"):
        replay_ascend({"kind": "schd"})
