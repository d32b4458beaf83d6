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


def test_a_refused_job_is_a_result() -> None:
    """More jobs than `max_jobs`: upstream raises RuntimeError, and the request is not queued (V-035)."""
    operations = [
        {"op": "add", "id": "#job_name[A]#0", "prompt": 5},
        {"op": "add", "id": "#job_name[B]#0", "prompt": 5},
        {"op": "observe", "job": "A", "n": 3},
        {"op": "observe", "job": "B", "n": 3},
        {"op": "len"},
    ]
    config = {"free_blocks": 50, "block_size": 16, "bja": {"max_jobs": 1}}
    refused = {"error": "RuntimeError"}
    assert replay_ascend({"kind": "bja_queue", "config": config, "ops": operations}) == {
        "results": [None, refused, None, refused, 1]
    }


def test_the_older_place_of_scheduler_options_is_read() -> None:
    """Beside `scheduler_config`, with a deprecation warning upstream (V-002)."""
    older = {"short_request_first_config": {"enabled": True}}
    case = {"additional_config": older, "async": True}
    (row,) = replay_ascend({"kind": "config", "cases": [case]})
    assert row["scheduler"].endswith("ShortRequestFirstAsyncScheduler")


def test_services_under_a_priority_policy_go_by_id() -> None:
    """The recorded requests of a service carry neither priority nor arrival time."""
    requests = [
        {"id": name, "t_us": t, "prompt": 5, "service_us": 10} for name, t in (("c", 0), ("b", 1), ("a", 2))
    ]
    config = {"threshold": 8, "long_max_wait_ms": 0.0, "policy": "priority"}
    order = replay_ascend({"kind": "srf_service", "config": config, "requests": requests})["order"]
    assert [served["id"] for served in order] == ["c", "a", "b"]
