"""The command line says the same as the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.ours import outcome_of_command
from tests.conformance.outcome import differences
from tests.conformance.recordings import Recording, deviations, recordings

EVERY = 24
EXACT = [r for name, r in recordings().items() if name not in deviations() and not r.expectations]
TRACED = [recording for recording in EXACT if recording.path.with_suffix(".csv").exists()]
SAMPLE = sorted({r.name: r for r in (*EXACT[::EVERY], *TRACED)}.values(), key=lambda r: r.name)


@pytest.mark.parametrize("recording", SAMPLE, ids=lambda recording: recording.name)
def test_serq_run_gives_the_recorded_outcome(recording: Recording, tmp_path: Path) -> None:
    assert not differences(recording.outcome, outcome_of_command(recording.path, tmp_path / "samples"))
