"""The coverage table counts traces, by event and feature."""

from typing import Any

from serq.oracle.generate.coverage import count, table


def recording(engine: dict[str, Any], *steps: dict[str, Any], **trace: Any) -> dict[str, Any]:
    empty = {"s": [], "q": [0, 0, 0], "t": 0, "t1": 0}
    return {
        "scenario": {"engine": engine},
        "trace": {
            "steps": [{**empty, **step} for step in steps],
            "requests": [],
            "stalled": False,
            "block_sizes": [16, 16],
            **trace,
        },
    }


def test_a_trace_counts_once_however_often_it_preempts() -> None:
    step = {"pre": ["A"], "s": [["B", 1, "c", 3, 0]]}
    cells = count([recording({"async_scheduling": True}, step, step), recording({}, step), recording({})])
    assert cells["(traces)", "all"] == 3
    assert cells["preemption", "all"] == 2
    assert cells["preemption", "async"] == 1
    assert cells["preemption", "priority"] == 0


def test_a_hit_that_is_no_whole_block_is_one_inside_a_block() -> None:
    cells = count([recording({}, {"hit": {"A": [24, 0]}}), recording({}, {"hit": {"A": [32, 5]}})])
    assert cells["local hit", "all"] == 2
    assert cells["hit inside a block", "all"] == 1
    assert cells["external hit", "all"] == 1


def test_a_request_ended_by_output_in_flight_after_its_preemption() -> None:
    in_flight = {"done": ["A"], "t1": 30}
    preempting = {"pre": ["A"], "t": 20, "s": [["B", 1, "c", 3, 0]]}
    assert count([recording({}, in_flight, preempting)])["finishes while waiting", "all"] == 1
    before = {"done": ["A"], "t1": 10}
    assert count([recording({}, before, preempting)])["finishes while waiting", "all"] == 0


def test_the_table_has_a_row_per_event() -> None:
    lines = table(count([recording({}, {"cow": [[1, 2]]})])).splitlines()
    row = next(line for line in lines if line.startswith("| copy on write "))
    assert row.split("|")[2].strip() == "1"
