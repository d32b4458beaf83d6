"""The benchmarks run, agree with themselves, and say so when they do not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import command
from benchmarks.agreement import disagreements
from benchmarks.jobs import AFFINE, Engine, Job, Outcome
from benchmarks.measure import RunFailedError, find_python, measure, summarise
from benchmarks.peers import all_peers
from benchmarks.workloads import WORKLOADS, Workload, evenly

OURS, STEP, *OTHERS = all_peers()
COMPILED, *PEERS = OTHERS
JOB = Job("one", 10, Engine(), AFFINE, "", "", "")
OUTCOME = Outcome(run_cpu=1.0, run_wall=1.0, requests=10, steps=100, mean_ttft=0.5, mean_e2e=2.0)


def quick(folder: Path, *options: str) -> dict[str, Any]:
    file = folder / "figures.json"
    arguments = ["--quick", "--json", str(file), "--traces", str(folder), "--only", *options]
    command.main(arguments)
    document: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return document


def test_a_quick_run_compares_ours_with_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_python", lambda peer, named: sys.executable if peer.ours else None)
    document = quick(tmp_path, "azure-1k")
    vllm, step = document["rows"]
    assert (vllm["peer"], step["peer"]) == ("serq vllm", "serq step")
    assert step["agrees"] and vllm["outcome"]["steps"] == step["outcome"]["steps"] > 0
    assert vllm["outcome"]["requests"] == 40
    assert vllm["process_cpu"] >= vllm["run_cpu"] > 0 and vllm["peak_memory"] > 10 * 2**20
    printed = capsys.readouterr().out
    assert "generated requests stand in" in printed
    assert document["absent"] == [peer.name for peer in OTHERS]
    assert all(f"{peer.name} is not here, and left out" in printed for peer in OTHERS)


def test_a_step_has_its_price(tmp_path: Path) -> None:
    """Two requests far apart, 100 prompt tokens, 3 outputs: 3 steps each, of 100, 1 and 1 tokens."""
    workload = Workload("two", "", 2, evenly(10.0, 100, 3), Engine(max_num_seqs=8, max_num_batched_tokens=64))
    job = workload.write(tmp_path, tmp_path, 2)
    outcome = measure(sys.executable, OURS, job, 60).outcome
    assert (outcome.requests, outcome.steps) == (2, 8)
    assert outcome.mean_ttft == pytest.approx(2 * 0.010 + 100 * 50e-6, rel=1e-12)
    assert outcome.mean_e2e == pytest.approx(4 * 0.010 + 102 * 50e-6, rel=1e-12)


def test_replicas_get_requests_in_turn(tmp_path: Path) -> None:
    """Four requests at once on four replicas do not wait for each other, on two they share a step."""
    for replicas, tokens in ((4, 100), (2, 200)):
        workload = Workload("four", "", 4, evenly(0.0, 100, 1), Engine(replicas=replicas))
        job = workload.write(tmp_path, tmp_path, 4)
        for peer in (OURS, STEP):
            outcome = measure(sys.executable, peer, job, 60).outcome
            assert outcome.mean_ttft == pytest.approx(0.010 + tokens * 50e-6, rel=1e-12)


def test_what_differs_is_named() -> None:
    peer = PEERS[0]
    assert disagreements(peer, JOB, OUTCOME, OUTCOME) == []
    (step,) = disagreements(peer, JOB, OUTCOME, replace(OUTCOME, steps=101))
    assert str(step) == "steps 101, ours 100"
    assert disagreements(peer, JOB, OUTCOME, replace(OUTCOME, mean_ttft=0.5 * (1 + 1e-8)))
    assert not disagreements(peer, JOB, OUTCOME, replace(OUTCOME, mean_ttft=0.5 * (1 + 1e-12)))
    assert not disagreements(peer, JOB, OUTCOME, replace(OUTCOME, steps=None)), (
        "what a peer does not say is not compared"
    )
    assert disagreements(peer, JOB, OUTCOME, replace(OUTCOME, requests=9))


def test_rules_of_its_own_loosen_a_comparison_only_where_they_matter(tmp_path: Path) -> None:
    dynosim = next(peer for peer in PEERS if peer.name == "DynoSim")
    job = WORKLOADS[0].write(tmp_path, tmp_path, 40)
    near, off = (replace(OUTCOME, steps=None, mean_ttft=0.5 * (1 + by)) for by in (5e-4, 5e-3))
    assert disagreements(dynosim, job, OUTCOME, near)
    assert not disagreements(dynosim, replace(job, preempts=True), OUTCOME, near)
    assert disagreements(dynosim, replace(job, preempts=True), OUTCOME, off)
    even = Workload("even", "", 40, evenly(0.05, 10, 3)).write(tmp_path, tmp_path, 40)
    assert not disagreements(dynosim, even, OUTCOME, off)


def test_a_disagreement_fails_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(python: str, peer: Any, job: Job, timeout: float) -> Any:
        measurement = measure(python, peer, job, timeout)
        late = replace(measurement.outcome, mean_e2e=1.0)
        return replace(measurement, outcome=late) if peer.name == "serq step" else measurement

    monkeypatch.setattr(command, "measure", measured)
    monkeypatch.setattr(command, "find_python", lambda peer, named: sys.executable if peer.ours else None)
    with pytest.raises(SystemExit, match="1"):
        quick(tmp_path, "long")


def test_a_peer_that_fails_is_named(tmp_path: Path) -> None:
    job = WORKLOADS[0].write(tmp_path, tmp_path, 40)
    with pytest.raises(RunFailedError, match="No module named"):
        measure(sys.executable, replace(OURS, module="benchmarks.peers.nobody"), job, 60)


def test_repeated_runs_must_come_to_the_same(tmp_path: Path) -> None:
    job = WORKLOADS[0].write(tmp_path, tmp_path, 40)
    one = measure(sys.executable, STEP, job, 60)
    assert summarise([one, replace(one, process_cpu=0.001)]).process_cpu == 0.001
    with pytest.raises(RunFailedError, match="repeated runs differ"):
        summarise([one, replace(one, outcome=replace(one.outcome, steps=1))])


def test_a_peer_is_found_only_where_it_is() -> None:
    assert find_python(OURS, None) == sys.executable
    assert find_python(replace(OURS, probe="import no_such_module"), None) is None


@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_installed_serq_goes_before_the_one_of_this_tree(tmp_path: Path, is_compiled: bool) -> None:
    """A Python with another serq, which says of itself whether it is compiled."""
    (tmp_path / "serq").mkdir()
    (tmp_path / "serq" / "__init__.py").touch()
    (tmp_path / "serq" / "compiled.py").write_text(f"def is_compiled(): return {is_compiled}\n", "utf-8")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n', "utf-8")
    python.chmod(0o755)
    assert find_python(COMPILED, str(python)) == (str(python) if is_compiled else None)
    with pytest.raises(RunFailedError, match=r"No module named 'serq\.runtime'"):  # so that one was to run
        measure(str(python), COMPILED, JOB, 60)


def test_without_their_pythons_all_peers_are_named_absent_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One half is sent to a Python that has no packages, the other to none at all."""
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n', "utf-8")
    bare.chmod(0o755)
    for place, peer in enumerate(OTHERS):
        named = bare if place % 2 else tmp_path / "nowhere"
        monkeypatch.setenv(command.variable(peer.name), str(named))
    document = quick(tmp_path, "long")
    assert document["absent"] == [peer.name for peer in OTHERS]
    assert {row["peer"] for row in document["rows"]} == {OURS.name, STEP.name}
    printed = capsys.readouterr().out
    assert all(f"{peer.name} is not here, and left out" in printed for peer in OTHERS)


@pytest.mark.parametrize(
    "arguments", [["--python", "nobody=/x"], ["--repeat", "0"], ["--only", "nothing"], ["--qick"]]
)
def test_wrong_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(arguments)
    assert arguments[0] in capsys.readouterr().err


def test_a_job_survives_its_text(tmp_path: Path) -> None:
    job = WORKLOADS[0].write(tmp_path, tmp_path, 40)
    assert Job.from_json(job.to_json()) == job
    assert len(list(job.rows())) == 40
