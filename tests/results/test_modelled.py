"""What a program's decisions are matched with: by its stages, queues and schedulers."""

from __future__ import annotations

import pytest

import serq
from serq.results.modelled import VLLM, VLLM_ASCEND, matched, modelled
from tests.shared import ROOT

ENGINE = "stage e : vllm { num_gpu_blocks 11; max_model_len 64; cost 1; OPTIONS }"
REST = """
workload { arrive batch(1); }
session { request r on e (16, 3); }
run { horizon 6; }
"""


def program(stage: str) -> serq.api.Program:
    return serq.compile(source=stage + REST)


@pytest.mark.parametrize(
    ("options", "versions", "words"),
    [
        ("", {"vllm": "0.27.1"}, "vLLM 0.27.1"),
        (
            "waiting short_request_first { threshold 8; }",
            {"vllm": "0.27.1", "vllm-ascend": "182b75ea"},
            "vLLM 0.27.1; vllm-ascend 182b75ea (`e`: short_request_first)",
        ),
        ("waiting by (prompt_tokens);", {"vllm": "0.27.1"}, "vLLM 0.27.1; `e` queues by the program's keys"),
    ],
)
def test_an_engine(options: str, versions: dict[str, str], words: str) -> None:
    ir = program(ENGINE.replace("OPTIONS", options)).ir
    assert (modelled(ir), matched(ir)) == (versions, words)


def test_what_has_no_engine_and_what_has_its_own_rules() -> None:
    queue = "stage d : fifo; workload { arrive batch(1); } session { run d (1); } run { horizon 6; }"
    assert (modelled(serq.compile(source=queue).ir), matched(serq.compile(source=queue).ir)) == ({}, "")
    ir = serq.compile(source=queue.replace("fifo", "step { cost 1; }").replace("run d", "prefill")).ir
    assert (modelled(ir), matched(ir)) == ({}, "`d` batches by the program's rules")


def test_a_scheduler_of_vllm_ascend() -> None:
    ir = serq.compile(ROOT / "examples" / "vendors" / "recompute.sq").ir
    assert "(`decoder`: scheduler recompute, `spare`: short_request_first)" in matched(ir)


def test_the_page_on_ascend_says_the_same_commit() -> None:
    page = (ROOT / "docs" / "ascend.md").read_text("utf-8")
    assert f"vllm-ascend (commit {VLLM_ASCEND}, which pairs with vLLM {VLLM})" in page
