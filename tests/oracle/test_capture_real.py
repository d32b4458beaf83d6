"""Capture with a real vLLM: the interpreter named by SERQ_VLLM_PYTHON re-records the handed traces."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from serq.oracle.generate import generate
from tests.shared import ROOT, shared

PYTHON = os.environ.get("SERQ_VLLM_PYTHON")

pytestmark = pytest.mark.skipif(PYTHON is None, reason="SERQ_VLLM_PYTHON names no interpreter with vLLM")


def capture(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert PYTHON is not None
    return subprocess.run(
        [PYTHON, "-m", "serq.oracle.capture", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def trace(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["trace"]
    del content["speed"]  # wall time of the recording machine
    return content


def test_every_handed_scenario_is_recorded_as_it_was(tmp_path: Path) -> None:
    handed = shared("oracle", "vllm", "handed")
    done = capture(handed, "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    paths = sorted(handed.iterdir())
    assert len(paths) > 100
    differing = [path.name for path in paths if trace(path) != trace(tmp_path / path.name)]
    assert differing == []


def test_what_vllm_refuses_is_reported_or_kept_apart(tmp_path: Path) -> None:
    """Chunked prefill off needs a budget of a whole sequence (S-003)."""
    refused = {
        "engine": {"enable_chunked_prefill": False, "max_num_batched_tokens": 64, "max_model_len": 128},
        "cost": {"base": 1},
        "requests": [{"id": "A", "t": 0, "prompt": 4, "max_tokens": 2}],
    }
    source, raises = tmp_path / "refused.json", tmp_path / "raises"
    source.write_text(json.dumps(refused))
    raises.mkdir()
    reported = capture(source, "-o", tmp_path / "trace.json")
    assert reported.returncode == 1
    assert "refused.json: vLLM raised" in reported.stderr
    kept = capture(source, "-o", tmp_path / "trace.json", "--raises", raises)
    assert kept.returncode == 0, kept.stderr
    assert "max_num_batched_tokens (64)" in json.loads((raises / "refused.json").read_text())["raised"]


def test_the_command_of_serq_records_in_that_interpreter(tmp_path: Path) -> None:
    """A fresh scenario through `serq oracle capture` and back through `serq oracle check`."""
    source, recorded = tmp_path / "source.json", tmp_path / "recorded.json"
    source.write_text(json.dumps(generate(1)))
    serq = [sys.executable, "-m", "serq", "oracle"]
    for arguments in (["capture", source, "-o", recorded], ["check", recorded]):
        done = subprocess.run([*serq, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
