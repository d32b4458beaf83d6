"""A few hundred broken inputs come to a report or to an error of ours."""

from __future__ import annotations

import pytest

from tests.fuzz.attack import Hang, attack

INPUTS = 300
BATCHES = 10


@pytest.mark.parametrize("batch", range(BATCHES))
def test_broken_inputs_end_well(batch: int) -> None:
    for seed in range(batch, INPUTS, BATCHES):
        tried = attack(seed)
        try:
            tried.verdict()
        except (Exception, Hang) as failure:
            failure.add_note(f"seed {seed}, {tried.kind}:\n{tried.data[:4000].decode('utf-8', 'replace')}")
            raise
