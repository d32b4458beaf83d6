"""Latencies by class, handle, stage and turn; throughput; both forms of a run say the same."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.errors import UsageError
from serq.results.groups import BY

# One slot, a step a second: the long request (class 1) of session 1 comes first, then two short ones wait.
PROGRAM = """
stage e : vllm { max_num_seqs 1; max_num_batched_tokens 32; max_model_len 64; num_gpu_blocks 11;
                 async_scheduling false; enable_prefix_caching false; cost 1; }
workload { arrive batch(3); }
session {
  branch (serial == 0) { request big on e (16, 4) class (1); }
  branch (serial == 1) { request small on e (16, 2) class (0); }
  branch (serial == 2) { request free on e (16, 1); }
}
run { horizon 20; }
"""


@pytest.fixture(scope="module")
def report() -> serq.Report:
    return serq.run(serq.compile(source=PROGRAM))


def test_classes(report: serq.Report) -> None:
    """big: 1 to 4; small: 5 to 6; free: 7."""
    zero, one, none = report.classes
    assert [group.name for group in report.classes] == ["class 0", "class 1", "no class"]
    assert (zero.requests, zero.ttft.mean, zero.e2e.p99, zero.tpot.p50) == (1, 5, 6, 1)
    assert (one.ttft.mean, one.e2e.mean, one.normalized_latency.mean) == (1, 4, 1)
    assert (zero.normalized_latency.mean, none.e2e.mean) == (3, 7) and isnan(none.tpot.mean)
    assert "class 0 ttft" in repr(report) and "class 1 e2e" in report._repr_html_()
    data = report.to_dict()["classes"][0]
    assert (data["name"], data["requests"], data["ttft"]["mean"], data["ttft"]["p50_low"]) == (
        "class 0", 1, 5, None,
    )  # fmt: skip


def test_other_groups(report: serq.Report) -> None:
    assert [group.name for group in report.groups("handle")] == ["big", "free", "small"]
    assert list(report.by("stage").index) == ["e"] and report.by("stage").loc["e", "e2e_mean"] == 17 / 3
    assert [group.name for group in report.groups("turn")] == ["turn 0"]
    assert [(group.name, group.e2e.mean) for group in report.groups("session")] == [
        ("session 0", 4), ("session 1", 6), ("session 2", 7),
    ]  # fmt: skip
    assert [group.name for group in report.groups("engine")] == ["e"]
    assert report.list_groups("handle").startswith("requests of ")
    with pytest.raises(UsageError, match="there are class, handle, stage, engine, session, turn"):
        report.groups("member")  # type: ignore[arg-type]


def test_no_classes_no_table() -> None:
    plain = serq.run(serq.compile(source=PROGRAM.replace(" class (1)", "").replace(" class (0)", "")))
    assert plain.classes == [] and "classes" not in plain.to_dict() and "requests of" not in repr(plain)


def test_throughput(report: serq.Report) -> None:
    """3 requests, 48 prompt and 7 output tokens in 20 s."""
    row = report.engines.iloc[0]
    assert (row["request_throughput"], row["input_throughput"], row["output_throughput"]) == (
        0.15, 2.4, 0.35,
    )  # fmt: skip
    assert report.to_dict()["engines"][0]["output_throughput"] == 0.35


@pytest.mark.parametrize("part_format", ["csv"])
def test_a_run_folder_says_the_same(tmp_path: Path, part_format: str, report: serq.Report) -> None:
    program = serq.compile(source=PROGRAM)
    writer = serq.open_run_folder(tmp_path / "run", program, part_format)
    serq.run(program, out=writer)
    again = serq.read_run(tmp_path / "run")
    assert repr(again) == repr(report) and again.to_dict() == report.to_dict()
    for by in BY:
        assert again.list_groups(by) == report.list_groups(by)


# Session n goes to member n alone, where a step takes a second: one step a token, n + 1 of them.
MEMBERS = """
stage e[11] : vllm { max_model_len 64; num_gpu_blocks 11; async_scheduling false; cost 1; }
workload { arrive batch(11); }
session { request r on e[serial] (16, 1 + serial); }
run { horizon 20; }
"""


def test_engines_are_in_the_order_of_declaration(tmp_path: Path) -> None:
    """Member 10 stands last, though its name would come after that of member 1."""
    program = serq.compile(source=MEMBERS)
    report = serq.run(program)
    groups = report.groups("engine")
    assert [group.name for group in groups] == [f"e[{n}]" for n in range(11)]
    assert [group.e2e.mean for group in groups] == list(range(1, 12))
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    assert serq.read_run(tmp_path / "run").list_groups("engine") == report.list_groups("engine")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_shows_groups(tmp_path: Path) -> None:
    file = tmp_path / "p.sq"
    file.write_text(PROGRAM)
    plain = run("run", file)
    table = serq.run(file).list_groups("session")
    assert run("run", file, "--by", "session") == f"{plain}\n{table}\n"
    assert run("run", file, "--by", "handle", "--by", "session").endswith(f"\n\n{table}\n")
    data = json.loads(run("run", file, "--by", "session", "--json"))
    assert [(one["name"], one["e2e"]["mean"]) for one in data["groups"]["session"]] == [
        ("session 0", 4), ("session 1", 6), ("session 2", 7),
    ]  # fmt: skip
    run("run", file, "--out", tmp_path / "run", "--out-format", "csv")
    for source in (file, tmp_path / "run"):
        run("report", source, "-o", tmp_path / "page.html", "--by", "session")
        assert "<th>session 2 e2e</th>" in (tmp_path / "page.html").read_text()


def test_groups_over_replications(tmp_path: Path) -> None:
    """Nothing is drawn: one seed is run, and the value has no interval."""
    file = tmp_path / "p.sq"
    file.write_text(PROGRAM)
    text = run("run", file, "--reps", 2, "--jobs", 1, "--by", "session")
    (line,) = [line.split() for line in text.splitlines() if line.startswith("session session 1 e2e mean ")]
    assert line[5:] == ["6"]
    assert any(line.startswith("class 0 e2e mean ") for line in text.splitlines())


def test_what_cannot_be_grouped_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.sq"
    file.write_text("workload { arrive batch(1); } session { end; } run { horizon 1; }")
    for command in (["run", file], ["report", file, "-o", tmp_path / "x.html"]):
        result = CliRunner().invoke(main, [*map(str, command), "--by", "class"])
        assert result.exit_code == 2 and "has no such stage" in result.stderr
    assert not (tmp_path / "x.html").exists()
