"""`serq memory`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from serq.cli import main


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["memory", *arguments])
    return result.exit_code, result.output


def test_the_stage_to_write() -> None:
    code, text = run("Qwen3.5-27B", "950PR_9589", "--max-model-len", "32768")
    lines = text.splitlines()
    assert code == 0 and lines[0].split() == ["memory", "of", "a", "rank", "size", "source"]
    assert lines[-5:] == [
        "  num_gpu_blocks 675;",
        "  group full { block_size 1536; }",
        *["  group mamba { mode none; }"] * 3,
    ]
    assert "requests of max_model_len 26.96" in lines  # 674 blocks, 22 + 3 a request


def test_json_has_the_same_figures() -> None:
    nothing = [word for what in ("activation", "graph", "runtime") for word in (f"--{what}-bytes", "0")]
    code, text = run("Qwen3-8B", "910B3", *nothing, "--gpu-memory-utilization", "0.5", "--json")
    plain = json.loads(text)
    assert code == 0 and plain["num_gpu_blocks"] == 952 and plain["block_bytes"] == 128 * 147_456
    assert [row["name"] for row in plain["memory"]] == [
        "device", "left to others", "weights", "activations", "graphs", "runtime",
    ]  # fmt: skip


def test_a_log_alone_and_beside_a_model(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("GPU KV cache size: 41,408 tokens\n")
    assert run("--from-log", str(log)) == (
        0,
        "logged: num_gpu_blocks 2588 (41,408 tokens), block_size 16\n",
    )
    code, text = run("Qwen3-8B", "A100", "--from-log", str(log), "--json")
    assert code == 0 and json.loads(text)["logged"]["num_gpu_blocks"] == 2588
    assert "num_gpu_blocks" in json.loads(text)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "takes a MODEL and a DEVICE"),
        (("Qwen3-8B",), 2, "takes a MODEL and a DEVICE"),
        (("Qwen3-8C", "A100"), 2, "unknown model `Qwen3-8C`; did you mean `Qwen3-8B`?"),
        (("Qwen3-8B", "A1000"), 2, "unknown device `A1000`; did you mean `A100`?"),
        (("Qwen3-8B", "A100", "--tp", "3"), 2, "which 3 ranks cannot share; --tp may be 1, 2"),
        (("Qwen3-32B", "910B4"), 1, "and a block takes 0.03 GiB; `tensor_parallel_size 4` leaves"),
        (("--from-log", "/nothing"), 1, "engine log /nothing: no such file"),
        (("Qwen3-8B", "A100", "--gpu-memory-utilization", "2"), 2, "--gpu-memory-utilization"),
    ],
)
def test_how_it_ends(arguments: tuple[str, ...], code: int, words: str) -> None:
    found, text = run(*arguments)
    assert found == code and words in text
