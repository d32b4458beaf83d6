"""`serq calibrate` as it is typed: plans, tables of others, fits, and what it says where it cannot."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from serq.cli import main
from serq.kernels.calibration.importing import ImportedTable, write_tables
from serq.kernels.tables.sidecar import Provenance


def typed(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["calibrate", *words])
    return result.exit_code, result.output


def test_a_plan_is_printed_and_kept(tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    code, text = typed("plan", "Qwen3-8B", folder, "--tp", "2", "--max-num-seqs", "16")
    assert code == 0
    lines = text.splitlines()
    assert lines[3].split()[:2] == ["mlp", "7"] and lines[-1].startswith("all ")
    plan = json.loads((tmp_path / "c" / "plan.json").read_text())
    assert plan["target"]["tensor_parallel_size"] == 2
    assert int(lines[-1].split()[1]) == sum(len(table["points"]) for table in plan["tables"])
    assert typed("plan", "Qwen3-8B", folder)[0] == 1  # another one is there


def test_without_torch_a_run_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serq.kernels.measuring.factory.find_spec", lambda name: None)
    typed("plan", "Qwen3-8B", str(tmp_path))
    code, text = typed("run", str(tmp_path))
    assert code == 1 and "serq[torch]" in text


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("plan", "Qwen3-9B", "c"), 2, "unknown model"),
        (("plan", "Qwen3-8B", "c", "--spacing", "1"), 2, "1 times apart"),
        (("run", "nowhere"), 1, "plan.json"),
        (("fit", "nowhere", "--device", "H200"), 1, "no such folder"),
        (("import", "nowhere", "c"), 2, "--model, --device"),
        (("import", "x", "c", "--model", "Qwen3-8B", "--device", "H", "--software", "a"), 2, "NAME=VERSION"),
    ],
)
def test_what_cannot_be_done(
    words: tuple[str, ...], code: int, complaint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = typed(*words)
    assert result[0] == code and complaint in result[1]


def test_a_fit_is_printed_and_written(tmp_path: Path) -> None:
    """The head of Qwen3-0.6B, 151,936 x 1024 in bfloat16, at half of 1e11 B/s."""
    times = {(float(n),): 2 * (151936 * 1024 + n * (1024 + 151936)) / 0.5e11 for n in (1, 2, 4, 8)}
    provenance = Provenance("chip", "us", {"torch": "2"})
    dimensions: dict[str, str | int] = {"model": "Qwen3-0.6B", "tensor_parallel_size": 1}
    write_tables([ImportedTable("lm_head", ("scheduled",), times)], tmp_path / "t", provenance, dimensions)
    folder = str(tmp_path / "t")
    peaks = ("--peak-operations", "1e15", "--memory-bandwidth", "1e11", "--kernel-overhead", "0")
    flags = ("--device", "H200", *peaks)
    code, text = typed("fit", folder, *flags)
    assert code == 0, text
    assert text.splitlines()[1].split()[:3] == ["lm_head", "4", "0.5"]
    assert "memory_bandwidth 1e+11;" in text
    written = tomllib.loads((tmp_path / "t" / "calibration.toml").read_text())
    assert written["lm_head"]["efficiency"] == pytest.approx(0.5, rel=1e-3)
    code, text = typed("fit", folder, *flags, "--json")
    (group,) = json.loads(text)["groups"]
    assert group["points"] == 4 and group["held_out"]["worst"] < 1e-3 and not group["at_limit"]


def test_tables_of_others_are_written(tmp_path: Path) -> None:
    header = "batch_size,isl,num_heads,num_key_value_heads,head_dim,step,latency"
    (tmp_path / "generation_attention_perf.csv").write_text(f"{header}\n1,1,16,8,128,127,0.02\n")
    code, text = typed(
        "import", str(tmp_path), str(tmp_path / "t"), "--model", "Qwen3-0.6B", "--device", "H200",
        "--software", "vllm=0.24",
    )  # fmt: skip
    assert (code, text.split()) == (0, ["attention_decodes", "1", "points"])
    metadata = json.loads((tmp_path / "t" / "attention_decodes.json").read_text())
    assert metadata["provenance"]["software"] == {"vllm": "0.24"}
    assert metadata["dimensions"] == {"model": "Qwen3-0.6B", "tensor_parallel_size": 1}
