"""Steps as they lie on the device: states, boundaries, padding, graphs, worked out by hand."""

from __future__ import annotations

import pytest

import serq
from serq.errors import UsageError
from serq.results import Report


def run(options: str, *, requests: int = 3, steps: bool = True, horizon: str = "100") -> Report:
    """Prompts of 300, 301, … tokens with 5 tokens of output, a budget of 256 tokens, steps of a second."""
    text = f"""
    stage engine : vllm {{
      num_gpu_blocks 200; max_model_len 4096; max_num_batched_tokens 256; max_num_seqs 8;
      async_scheduling false; cost 1; {options}
    }}
    workload {{ arrive batch({requests}); }}
    session {{ request r on engine (300 + serial, 5); }}
    run {{ horizon {horizon}; }}
    """
    return serq.run(serq.compile(source=text), steps=steps)


def laid(report: Report) -> list[tuple[str, int, int, int, str]]:
    """State, decode tokens, prefill tokens, padding and graph of every step."""
    steps = report.steps
    padding = steps.padded - steps.tokens
    columns = (steps.state, steps.device_decode, steps.device_prefill, padding, steps.graph)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_eager_mixed_steps_and_padded_decodes() -> None:
    """300 = 256 + 44, then 212 + 89 of 301, then 166 + 136 of 302; the outputs overlap (V-065, V-071)."""
    report = run("layout vllm_ascend { cudagraph_mode FULL_DECODE_ONLY; cudagraph_capture_sizes 1, 2, 4; }")
    assert laid(report) == [
        ("PrefillNoCache", 0, 256, 0, "NONE"),
        ("ChunkedPrefill", 0, 256, 0, "NONE"),
        ("ChunkedPrefill", 1, 255, 0, "NONE"),
        ("ChunkedPrefill", 2, 136, 0, "NONE"),
        ("DecodeOnly", 3, 0, 1, "FULL"),
        ("DecodeOnly", 3, 0, 1, "FULL"),
        ("DecodeOnly", 2, 0, 0, "FULL"),
        ("DecodeOnly", 1, 0, 0, "FULL"),
    ]


def test_piecewise_graphs_pad_prefills_too() -> None:
    """Without a limit of its own the largest size is that of 8 decodes; 256 tokens are beyond it (V-072)."""
    assert laid(run(""))[3] == ("ChunkedPrefill", 2, 136, 0, "NONE")
    assert laid(run("layout vllm_ascend { max_cudagraph_capture_size 256; }"))[3] == (
        "ChunkedPrefill", 2, 136, 6, "PIECEWISE",
    )  # fmt: skip


def test_sequence_parallelism_pads_to_the_devices() -> None:
    """138 tokens over 4 devices are 140 (V-070)."""
    report = run("layout vllm_ascend { enforce_eager true; enable_sp true; tensor_parallel_size 4; }")
    assert laid(report)[3] == ("ChunkedPrefill", 2, 136, 2, "NONE")


def test_speculation_has_a_state_of_its_own_where_the_drafter_is_mtp() -> None:
    """Two tokens a request and step, one of them a draft that is never taken (V-065, V-066)."""
    drafts = "speculative {} {{ k 1; accept 0; }} async_scheduling false;"
    text = "layout vllm_ascend { cudagraph_mode FULL_DECODE_ONLY; }"
    for method, state in (("mtp", "SpecDecoding"), ("ngram", "ChunkedPrefill")):
        options = drafts.replace("async_scheduling false;", "").format(method)
        assert laid(run(f"{options} {text}", requests=1))[2:5] == [(state, 2, 0, 0, "FULL")] * 3


def test_sglang_puts_prefills_first_and_has_modes_of_its_own() -> None:
    states = [(step[0], step[1], step[2]) for step in laid(run("layout sglang { device A5; }"))]
    assert states[:5] == [
        ("extend", 0, 256), ("extend", 0, 256), ("mixed", 1, 255), ("mixed", 2, 136), ("decode", 3, 0),
    ]  # fmt: skip


def test_the_report_shows_the_share_of_every_state() -> None:
    """906 - 3 = 903 prompt tokens and the 12 outputs that were fed back, in 8 steps."""
    shown = repr(run(""))
    (row,) = (line.split() for line in shown.splitlines() if "ChunkedPrefill" in line)
    assert row == ["engine", "ChunkedPrefill", "3", "0.375", "650", f"{650 / 915:.6g}"]
    assert "vllm_ascend(device A2)" in shown
    assert "attention state" not in repr(run("", steps=False))


def test_a_stopped_run_keeps_its_steps() -> None:
    text = """
    stage engine : vllm { num_gpu_blocks 9; max_model_len 4096; cost 1; }
    workload { arrive batch(2); }
    session { branch (serial == 0) { request r on engine (20, 5); } else {
      request warm on engine (20, 9); request r on engine (2000, 5); } }
    run { horizon 100; }
    """
    with pytest.raises(serq.RunError) as raised:
        serq.run(serq.compile(source=text), steps=True)
    assert raised.value.records is not None
    listed = Report(raised.value.records).list_steps(1, 2)
    assert [line.split()[3] for line in listed.splitlines()[1:]] == ["PrefillNoCache", "DecodeOnly"]


def test_listing_numbers_steps_from_one_and_names_members() -> None:
    report = run("")
    lines = report.list_steps(3, 4, stage="engine").splitlines()
    assert [line.split()[0] for line in lines] == ["engine:", "3", "4"]
    assert report.list_steps(9).splitlines()[1:] == []
    with pytest.raises(UsageError, match="no engine `engin`; the vllm stages of this program: `engine`"):
        report.list_steps(stage="engin")
    with pytest.raises(UsageError, match="did not keep its steps"):
        run("", steps=False).list_steps()


def test_too_many_drafts_for_the_attention_operator_are_refused() -> None:
    """At most 16 tokens of a request in a decode (V-069)."""
    with pytest.raises(serq.RunError, match="takes at most 16"):
        run("speculative ngram { k 16; }")


def test_a_step_that_upstream_cannot_pad_is_marked() -> None:
    """Three decodes of 2 tokens in a graph of 9, which is no number of rows of 2 (V-077)."""
    options = "speculative ngram { k 1; accept 0; } layout vllm_ascend { cudagraph_capture_sizes 9; }"
    assert ("(assertion)", 6, 0, 0, "-") in laid(run(options))
