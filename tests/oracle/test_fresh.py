"""Fresh recordings of the real scheduler: random scenarios chosen so that each event meets each feature.

They were generated and captured with this project (docs/development.md, "Recording fresh traces") and picked
from ten thousand by greedy cover of the coverage table. Re-picking them renews the seal of tests/oracle.
"""

from pathlib import Path

import pytest

from serq.oracle.compare import first_difference
from serq.oracle.files import find_files, read_oracle
from serq.oracle.generate.coverage import EVENTS, FEATURES, count
from serq.oracle.replay import replay
from serq.oracle.scenario import parse_scenario

FILES = find_files([Path(__file__).parent / "fresh"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_fresh_trace_is_replayed(path: Path) -> None:
    scenario, trace = read_oracle(path)
    difference = first_difference(trace, replay(parse_scenario(scenario, path.name)))
    assert difference is None, str(difference)


def test_every_event_and_every_feature_occurs() -> None:
    recordings = [dict(zip(("scenario", "trace"), read_oracle(path), strict=True)) for path in FILES]
    cells = count(recordings)
    assert [event for event in EVENTS if not cells[event, "all"]] == []
    assert [feature for feature in FEATURES if not cells["(traces)", feature]] == []
