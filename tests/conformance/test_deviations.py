"""Where we want something else than what is recorded (DEVIATIONS.tsv), we have it."""

from __future__ import annotations

import pytest

from tests.conformance.ours import compiled_and_run, outcome_here
from tests.conformance.outcome import Outcome, differences
from tests.conformance.recordings import Recording, deviations, recordings

REFUSED = {
    "a008_attr_shadows_builtin": ("compile", ["`now`"]),
    "a024_negative_units_clamp": ("compile", ["negative"]),
    "a035_same_pool_twice": ("compile", ["`p`", "twice"]),
    "a112_choose": ("compile", ["2.9", "whole"]),
    "a114_array_index_rules": ("compile", ["p[1.9]", "whole"]),
    "b138_reject_renewal_zero_gap": ("compile", ["gap"]),
}
TESTED_HERE = {
    *REFUSED,
    *("r027_array_size_let", "r076_aggregate"),
    *("b058_step_stall_and_resume", "b062_step_preempt_lifo_blocks", "b027_step_budget_zero_idles"),
}


def test_every_deviation_has_a_test() -> None:
    assert set(deviations()) == TESTED_HERE


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_with_the_reason(name: str) -> None:
    stage, words = REFUSED[name]
    outcome = outcome_here(recordings()[name].path)
    assert outcome.refused == stage, outcome
    for word in words:
        assert word in outcome.message


def test_constant_sizes_are_accepted() -> None:
    """A family whose size is a `let`: one session that ends at once, two pools."""
    outcome = outcome_here(recordings()["r027_array_size_let"].path)
    assert [pool["name"] for pool in outcome.report["pools"]] == ["p", "p"]
    assert (outcome.report["arrivals"], outcome.report["ended"]) == (1, 1)


def test_aggregates_are_accepted() -> None:
    """The largest use of two empty pools is 0."""
    outcome = outcome_here(recordings()["r076_aggregate"].path)
    assert outcome.series["v"]["samples"] == [0]


def test_a_granted_stall_keeps_the_times() -> None:
    recording = recordings()["b058_step_stall_and_resume"]
    outcome = outcome_here(recording.path)
    assert not differences(Outcome(series=recording.outcome.series), Outcome(series=outcome.series))


STALLED = """
pool kv { cap 10; }
stage gpu : step { cost 1; memory kv; }
stage gap : delay;
workload { arrive batch(2); }
session {
  branch (serial == 0) { hold kv (8) { run gap (5); } end; }
  hold kv (1) { run gpu prefill (9) growing kv; observe done = now; } cache (100)
  observe kept = cachedin(kv);
}
run { horizon 20; }
"""


def test_a_granted_stall_counts_the_position_once() -> None:
    """The grower waits until 5, needs one iteration, and has computed 9 tokens (0.1.0 says 17)."""
    outcome = outcome_here(source=STALLED)
    assert outcome.series["done"]["samples"] == [6]
    assert outcome.series["kept"]["samples"] == [9]


def test_a_preempted_hold_leaves_nothing_in_the_slot_pool() -> None:
    recording = recordings()["b062_step_preempt_lifo_blocks"]
    outcome = outcome_here(recording.path)
    assert outcome.report["pools"][0]["mean_cached"] == 0
    assert not differences(_without_slot_cache(recording), outcome)


def _without_slot_cache(recording: Recording) -> Outcome:
    slots, *others = recording.outcome.report["pools"]
    pools = [{**slots, "mean_cached": 0}, *others]
    return Outcome(report={**recording.outcome.report, "pools": pools}, series=recording.outcome.series)


def test_an_engine_that_can_never_run_is_warned_of() -> None:
    recording = recordings()["b027_step_budget_zero_idles"]
    outcome, report = compiled_and_run(recording.path)
    assert not differences(recording.outcome, outcome)
    assert report is not None and any("gpu" in warning.render() for warning in report.warnings)
