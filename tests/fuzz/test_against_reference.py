"""A few hundred random programs come to the same on both sides, where the reference is here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.comparison import compare
from tests.fuzz.generator import random_program
from tests.fuzz.reference import Reference, reference_python

BATCHES = 12
PROGRAMS_A_BATCH = 25


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    python = reference_python()
    if python is None:
        pytest.skip("pyserq 0.1.0 is not here (.ci/run installs it; or set SERQ_REFERENCE_PYTHON)")
    with Reference(python) as running:
        yield running


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs_agree(batch: int, reference: Reference) -> None:
    first = batch * PROGRAMS_A_BATCH
    for seed in range(first, first + PROGRAMS_A_BATCH):
        program = random_program(seed)
        comparison = compare(program, reference)
        assert not comparison.differences, f"seed {seed}: {comparison.differences[:3]}\n{program.text}"
