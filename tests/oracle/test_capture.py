"""Capture without a vLLM: reading scenarios, scripted tokens, and the refusal to run on another scheduler."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from serq.errors import DataError, UsageError
from serq.oracle.capture import SUPPORTED_VLLM, Scenario, VllmUnavailableError, require_vllm
from serq.oracle.capture.command import Destination, capture_files, main, read_scenario
from serq.oracle.capture.scenario import Cost, Group
from serq.oracle.capture.speculation import SpeculationScript
from serq.oracle.capture.tokens import EOS_TOKEN, REPEATED_TOKEN, TokenScript

MINIMAL = {"cost": {"base": 1}, "requests": [{"id": "A", "t": 0, "prompt": 4, "max_tokens": 2}]}


def scenario(**parts: object) -> Scenario:
    return Scenario.from_json({**MINIMAL, **parts})


def requests(*rows: dict[str, object]) -> Scenario:
    return scenario(requests=[{"t": 0, "prompt": 6, "max_tokens": 4, **row} for row in rows])


def version_of_vllm(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def lookup(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", lookup)


def test_without_vllm_the_error_names_the_version_needed_and_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    version_of_vllm(monkeypatch, None)
    monkeypatch.delenv("SERQ_VLLM_PYTHON", raising=False)
    assert main(["scenario.json", "-o", str(tmp_path / "out.json")]) == 1
    message = capsys.readouterr().err
    assert SUPPORTED_VLLM in message
    assert sys.executable in message


def test_the_interpreter_can_be_named_and_one_that_cannot_run_is_reported(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """/bin/echo stands for a Python and shows how it is called."""
    assert main(["s.json", "-o", "t.json", "--python", "/bin/echo"]) == 0
    assert capfd.readouterr().out.startswith("-m serq.oracle.capture s.json -o t.json")
    assert main(["s.json", "-o", "t.json", "--python", str(tmp_path / "absent")]) == 1
    assert "absent cannot be run" in capfd.readouterr().err


def test_another_vllm_is_refused_and_both_versions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    version_of_vllm(monkeypatch, "0.19.0+cpu")
    with pytest.raises(VllmUnavailableError, match=r"0\.27\.1.*0\.19\.0"):
        require_vllm()


def test_a_local_build_of_the_supported_version_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    version_of_vllm(monkeypatch, f"{SUPPORTED_VLLM}+cpu")
    require_vllm()


def test_the_command_needs_only_the_standard_library(tmp_path: Path) -> None:
    """A Python with vLLM has none of serq's dependencies; -S -I leaves only the standard library."""
    root = Path(__file__).parents[2]
    program = (
        f"import sys; sys.path.insert(0, {str(root)!r}); import runpy; sys.argv[1:] = ['x', '-o', 'y']; "
    )
    program += "runpy.run_module('serq.oracle.capture', run_name='__main__')"
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env={})
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"vLLM {SUPPORTED_VLLM}" in done.stderr


def test_unset_fields_have_the_defaults_of_the_format() -> None:
    engine = scenario().engine
    assert (engine.max_num_batched_tokens, engine.max_num_seqs, engine.max_model_len) == (2048, 128, 4096)
    assert engine.groups == (Group("full", 16),)
    assert engine.reserve_full_isl


def test_a_mamba_block_holds_the_longest_sequence_by_default() -> None:
    assert Group("mamba").resolved_block_size(512) == 512
    assert Group("sliding", window=32).resolved_block_size(512) == 16


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"engine": {"max_num_seq": 4}}, "engine: unknown field 'max_num_seq'"),
        (
            {"engine": {"groups": [{"kind": "full", "windw": 4}]}},
            r"engine\.groups\[0\]: unknown field 'windw'",
        ),
        ({"spec": {"method": "ngram"}}, "spec: field 'k' is missing"),
        ({"requests": [{"id": "A", "t": 0, "prompt": 4}]}, r"requests\[0\]: field 'max_tokens' is missing"),
        ({"requests": MINIMAL["requests"] * 2}, r"requests\[1\]: the id 'A' is taken"),
        ({"events": [3]}, r"events\[0\]: an object is expected, not 3"),
        ({"seed": 1}, "scenario: unknown field 'seed'"),
    ],
)
def test_a_field_that_is_unknown_missing_or_double_is_named(parts: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        scenario(**parts)


def test_a_request_can_only_continue_an_earlier_one() -> None:
    with pytest.raises(DataError, match="continues 'B', which is no earlier request"):
        requests({"id": "A", "continues": {"id": "B", "len": 2}}, {"id": "B"})


def test_an_empty_step_takes_no_time() -> None:
    cost = Cost(base=100, per_token=2, per_seq=30)
    assert cost.of(0, 0) == 0
    assert cost.of(5, 2) == 100 + 10 + 60


def test_prompts_are_equal_exactly_where_they_share_a_prefix() -> None:
    rows = ({"id": "A", "prefix_group": 0, "prefix_len": 4}, {"id": "B", "prefix_group": 0, "prefix_len": 3})
    script = TokenScript(requests(*rows).requests)
    a, b = script.prompt("A"), script.prompt("B")
    assert [x == y for x, y in zip(a, b, strict=True)] == [True, True, True, False, False, False]
    assert len(set(a)) == 6


def test_a_continuing_prompt_repeats_the_other_prompt_and_outputs() -> None:
    script = TokenScript(
        requests({"id": "A"}, {"id": "B", "prompt": 9, "continues": {"id": "A", "len": 8}}).requests
    )
    first_turn = [*script.prompt("A"), script.output("A", 0), script.output("A", 1)]
    assert script.prompt("B")[:8] == first_turn
    assert script.prompt("B")[8] not in first_turn


def test_stops_stand_at_their_output_index() -> None:
    rows = (
        {"id": "A", "stop": {"kind": "eos", "at": 1}},
        {"id": "B", "stop": {"kind": "repeat", "at": 2, "count": 2}},
    )
    script = TokenScript(requests(*rows).requests)
    assert [script.output("A", n) == EOS_TOKEN for n in range(3)] == [False, True, False]
    assert [script.output("B", n) == REPEATED_TOKEN for n in range(4)] == [False, False, True, True]


def test_acceptance_follows_each_requests_own_script_and_never_exceeds_the_drafts() -> None:
    given = scenario(
        spec={"method": "ngram", "k": 3, "accept": [3, 0]},
        requests=[*MINIMAL["requests"], {"id": "B", "t": 0, "prompt": 4, "max_tokens": 2, "accept": [1]}],
    )
    assert given.spec is not None
    script = SpeculationScript(given.spec, given.requests)
    assert [script.num_accepted("A", 2), script.num_accepted("A", 2), script.num_accepted("A", 3)] == [
        2,
        0,
        3,
    ]
    assert [script.num_accepted("B", 3), script.num_accepted("B", 3)] == [1, 1]


def test_draft_lengths_cycle_and_are_cut_to_the_k_of_the_step() -> None:
    given = scenario(spec={"method": "ngram", "k": 3, "draft_len": [3, 1]})
    assert given.spec is not None
    script = SpeculationScript(given.spec, given.requests)
    assert [script.num_proposed("A", 3), script.num_proposed("A", 3), script.num_proposed("A", 2)] == [
        3,
        1,
        2,
    ]


def test_a_file_with_a_trace_is_read_as_its_scenario(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps({"scenario": MINIMAL, "trace": {"end": 3}}))
    assert read_scenario(path) == MINIMAL


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"scenario": 3}'])
def test_a_file_that_is_no_scenario_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(DataError, match="broken"):
        read_scenario(path)


def test_several_scenarios_need_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 scenarios need a folder"):
        capture_files([tmp_path / "a.json", tmp_path / "b.json"], Destination(tmp_path / "out.json"), 10)
