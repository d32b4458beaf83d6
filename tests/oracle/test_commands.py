"""``serq oracle check, replay, show, diff``: what they print and how they end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from serq.cli import main
from serq.oracle.files import read_oracle

TRACES = Path(__file__).parent / "vllm"
FILE = TRACES / "h_one_token.json"


def serq(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["oracle", *map(str, arguments)])


def broken_copy(folder: Path, step: int, **fields: Any) -> Path:
    scenario, trace = read_oracle(FILE)
    trace["steps"][step].update(fields)
    path = folder / "broken.json"
    path.write_text(json.dumps({"scenario": scenario, "trace": trace}))
    return path


def test_check_counts_identical_files() -> None:
    result = serq("check", FILE, TRACES / "h_burst_order.json")
    assert (result.exit_code, result.stdout) == (0, "2 of 2 identical\n")


def test_check_knows_recordings_of_vllm_ascend(tmp_path: Path) -> None:
    lanes = TRACES.parent / "ascend" / "recordings" / "srf_q_peek_pins_lane.json"
    assert serq("check", FILE, lanes).stdout == "2 of 2 identical\n"
    recording = json.loads(lanes.read_text())
    recording["expected"]["results"][3]["result"] = "L"
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(recording))
    result = serq("check", changed)
    assert result.stdout.startswith(f"{changed}: results[3].result: recorded 'L', modelled 's'")
    assert result.exit_code == 1


def test_replay_writes_a_recording_of_vllm_ascend(tmp_path: Path) -> None:
    lanes = TRACES.parent / "ascend" / "recordings" / "srf_q_peek_pins_lane.json"
    written = tmp_path / "ours.json"
    assert serq("replay", lanes, "-o", written).exit_code == 0
    assert json.loads(written.read_text()) == json.loads(lanes.read_text())


def test_check_reads_folders_and_gzip(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.json.gz").write_bytes(gzip.compress(FILE.read_bytes()))
    (tmp_path / "b.json").write_bytes(FILE.read_bytes())
    (tmp_path / "notes.txt").write_text("not a trace")
    assert serq("check", tmp_path).stdout == "2 of 2 identical\n"


def test_check_prints_a_line_per_file_that_differs(tmp_path: Path) -> None:
    path = broken_copy(tmp_path, 1, tok=5)
    result = serq("check", FILE, path)
    _, trace = read_oracle(FILE)
    assert result.exit_code == 1
    assert result.stdout == (
        f"{path}: step 1: tok: expected 5, got {trace['steps'][1]['tok']}\n1 of 2 identical\n"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"scenario": 1}', b'{"scenario": {}, "trace": {}}', b"\x1f\x8b\x08", b"\xff\xfe"],
)
def test_check_of_a_bad_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    result = serq("check", path, FILE)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"{path}: ")
    assert lines[1] == "1 of 2 identical"


@pytest.mark.parametrize("command", ["check", "replay", "show"])
def test_missing_file_is_an_error(command: str, tmp_path: Path) -> None:
    result = serq(command, tmp_path / "none.json")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "none.json" in result.stderr
    assert result.stderr.startswith("error: ")


def test_check_needs_a_path() -> None:
    assert serq("check").exit_code == 2


def test_replay_prints_the_trace() -> None:
    _, trace = read_oracle(FILE)
    assert json.loads(serq("replay", FILE).stdout) == trace


def test_replay_writes_an_oracle_file(tmp_path: Path) -> None:
    out = tmp_path / "out.json.gz"
    assert serq("replay", FILE, "-o", out).exit_code == 0
    assert serq("check", out).stdout == "1 of 1 identical\n"
    assert serq("diff", FILE, out).stdout == "identical\n"


def test_replay_takes_a_bare_scenario(tmp_path: Path) -> None:
    scenario, trace = read_oracle(FILE)
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(scenario))
    assert json.loads(serq("replay", path).stdout) == trace


def test_diff_shows_the_steps_before_the_difference(tmp_path: Path) -> None:
    path = broken_copy(tmp_path, 1, free=[1, 2, 3])
    result = serq("diff", FILE, path, "--context", 1)
    _, trace = read_oracle(FILE)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"step 1: free: expected {trace['steps'][1]['free']}, got [1, 2, 3]\n")
    assert f"{path}, steps 0 to 1:" in result.stdout


def test_show_marks_what_happened() -> None:
    result = serq("show", TRACES / "h_preempt_chunk_resume.json.gz", "--from", 6, "--to", 11)
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line}
    assert rows["A"] == ["1", "1", "1", "1", "1", "1"]
    assert rows["C"] == ["+16", "14", "1", "1", "x", "."]
    assert rows["free"] == ["2", "0", "0", "0", "2", "1"]


def test_show_replays_a_digest() -> None:
    result = serq("show", TRACES / "large_poisson_500.json.gz", "--to", 3)
    assert result.exit_code == 0
    assert "+624" in result.stdout


def test_show_of_a_request_that_is_not_there() -> None:
    result = serq("show", FILE, "--blocks", "nobody")
    assert (result.exit_code, "no request nobody" in result.stderr) == (2, True)


def test_show_of_a_recording_of_vllm_ascend() -> None:
    result = serq("show", TRACES.parent / "ascend" / "recordings" / "srf_q_peek_pins_lane.json")
    assert (result.exit_code, "has no steps to show" in result.stderr) == (1, True)


def test_show_of_steps_that_are_not_there() -> None:
    result = serq("show", FILE, "--from", 1000)
    assert result.exit_code == 2
    assert "no step from 1000" in result.stderr
