"""Our calls through the meta kernels of a torch_npu wheel, where one is at hand (docs/development.md)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kernels.ascend.meta_kernels import schemas
from tests.shared import ROOT

WHEEL = os.environ.get("SERQ_TORCH_NPU_WHEEL")


@pytest.mark.skipif(WHEEL is None, reason="SERQ_TORCH_NPU_WHEEL names no torch_npu wheel")
def test_the_wheels_meta_kernels_take_every_call() -> None:
    pytest.importorskip("torch", reason="needs torch (pip install 'serq[torch]')")
    command = [sys.executable, "-m", "tests.kernels.ascend.meta_kernels", str(WHEEL)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    # Attention one call a state, split and INT8: 4 * 4, chunked prefills 1 + 2 + 2 + 2; rules 1, 1, 1, 2, 1.
    assert ended.stdout.count("\nok") == 29


def test_schemas_are_found_among_other_strings() -> None:
    library = b"\x00junk\x01npu::npu_a(Tensor x) -> Tensor\x00aclnn is no schema\x00b_c(int n=1) -> ()\x00"
    assert schemas(library) == {"npu_a(Tensor x) -> Tensor", "b_c(int n=1) -> ()"}
