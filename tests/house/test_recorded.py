"""Recorded expectations are what they were when somebody last vouched for them."""

from __future__ import annotations

import pytest

from tests.house import recorded


@pytest.mark.parametrize("folder", sorted(recorded.SEALED))
def test_recorded_expectations_are_unchanged(folder: str) -> None:
    now, then = recorded.digests(folder), recorded.sealed(folder)
    changed = sorted(path for path in now.keys() & then.keys() if now[path] != then[path])
    missing = sorted(then.keys() - now.keys())
    unlisted = sorted(now.keys() - then.keys())
    assert not (changed or missing or unlisted), (
        f"changed: {changed}; missing: {missing}; not listed: {unlisted}. If that is on purpose: "
        f"python -m tests.house.recorded --renew {folder}"
    )
