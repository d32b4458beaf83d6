"""Completion in bash, as docs/editors.md installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest


@pytest.mark.skipif(which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["capa"], "capacity"),
        (["trace", "conv"], "convert"),
        (["init", "--kind", "d"], "disaggregated"),
        (["explain", "good"], "goodput"),
        (["plot", "x", "--figure", "lat"], "latency"),
        (["memory", "qwen3-8"], "Qwen3-8B"),
        (["memory", "Qwen3-8B", "a100-s"], "A100-SXM"),
        (["run", "engine.sq", "--set", "max"], "max_num_seqs="),
        (["sweep", "engine.sq", "--set", "r"], "rate="),
        (["compare", "engine.sq", "--set-b", "r"], "rate="),
        (["run", "engine.sq", "--set", "rate=m"], ""),
        (["run", "nothing.sq", "--set", "r"], ""),
    ],
)
def test_bash(tmp_path: Path, words: list[str], expected: str) -> None:
    serq = tmp_path / "serq"
    serq.write_text(f'#!/bin/sh\nexec {sys.executable} -m serq "$@"\n')
    serq.chmod(0o755)
    (tmp_path / "engine.sq").write_text("let rate = 3;\n  let max_num_seqs = 8;\n// let no = 1;\n")
    script = (
        f'eval "$(_SERQ_COMPLETE=bash_source serq)"\nCOMP_WORDS=(serq {" ".join(words)}) '
        f'COMP_CWORD={len(words)}\n_serq_completion serq\necho "${{COMPREPLY[@]}}"\n'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    command = ["bash", "-c", script]
    done = subprocess.run(command, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == expected, done.stderr
