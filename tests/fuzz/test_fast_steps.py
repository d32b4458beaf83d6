"""A few hundred random programs record the same with planned iterations as without; more by the command."""

from __future__ import annotations

from tests.fuzz import fast_steps


def test_planned_iterations_record_what_the_walk_records() -> None:
    result = fast_steps.compare(range(1, 301))
    assert not result.differing
    assert result.programs == 300 and result.planned > 10_000
