"""The library, used as a notebook uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

import serq

PROGRAM = """
let service = 2;
stage desk : fifo;
workload { arrive batch(3); }
session { run desk (service); observe done = now; }
run { horizon 10; }
"""


def values(report: serq.Report) -> list[float]:
    return report.observe("done")["value"].tolist()


def test_compile_and_run_a_text() -> None:
    report = serq.run(serq.compile(source=PROGRAM))
    assert values(report) == [2.0, 4.0, 6.0]
    assert report.records.end == 10.0 and report.stopped is None


def test_run_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.sq").write_text(PROGRAM)
    assert values(serq.run(tmp_path / "p.sq")) == [2.0, 4.0, 6.0]
    assert values(serq.run(str(tmp_path / "p.sq"))) == [2.0, 4.0, 6.0]


def test_compile_arguments_replace_the_program() -> None:
    program = serq.compile(source=PROGRAM, sets={"service": 1.5}, seed=5, horizon=4, warmup=2)
    assert (program.ir.run.seed, program.ir.run.horizon, program.ir.run.warmup) == (5, 4, 2)
    assert values(serq.run(program)) == [3.0]
    assert values(serq.run(serq.compile(source=PROGRAM, sets={"service": "1 + 1"}))) == [2.0, 4.0, 6.0]


def test_a_horizon_may_come_from_outside() -> None:
    text = PROGRAM.replace("run { horizon 10; }", "")
    with pytest.raises(serq.CompileError, match="how long to run"):
        serq.compile(source=text)
    assert values(serq.run(serq.compile(source=text, horizon=5))) == [2.0, 4.0]


def test_a_warmup_must_end_before_the_horizon_that_counts() -> None:
    with pytest.raises(serq.CompileError, match="before the horizon"):
        serq.compile(source=PROGRAM, warmup=10)
    text = PROGRAM.replace("horizon 10", "horizon 10; warmup 20")
    with pytest.raises(serq.CompileError):
        serq.compile(source=text)
    assert serq.compile(source=text, horizon=30).ir.run.warmup == 20


def test_json_round_trip() -> None:
    program = serq.compile(source=PROGRAM)
    again = serq.Program.from_json(program.to_json())
    assert again.ir == program.ir and again.to_json() == program.to_json()
    assert values(serq.run(again)) == [2.0, 4.0, 6.0]


def test_check() -> None:
    assert serq.check(source=PROGRAM) == []
    diagnostics = serq.check(source="session { observe x = nobody; }\nrun { horizon 1; }")
    assert [d.severity for d in diagnostics] == ["error"] and "nobody" in diagnostics[0].message


def test_trace_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'workload { arrive batch(1); trace "t.csv" ordered; }\nsession { turn; observe done = new; }\n'
        "run { horizon 1; }\n"
    )
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "p.sq").write_text(text)
    (tmp_path / "programs" / "t.csv").write_text("0,0,5,0,0\n")
    (tmp_path / "t.csv").write_text("0,0,7,0,0\n")
    monkeypatch.chdir(tmp_path)
    assert values(serq.run("programs/p.sq")) == [5.0]  # the program's own folder
    assert values(serq.run(serq.compile(source=text))) == [7.0]  # the working directory
    assert values(serq.run(serq.compile("programs/p.sq", trace="t.csv"))) == [7.0]
    serq.compile(source=text.replace("t.csv", "none.csv"))  # compiling opens no trace (R-B-080)


def test_use_reads_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "desk.sq").write_text("stage desk : fifo;\n")
    (tmp_path / "p.sq").write_text('use "parts/desk.sq";\n' + PROGRAM.replace("stage desk : fifo;\n", ""))
    assert values(serq.run(tmp_path / "p.sq")) == [2.0, 4.0, 6.0]
    with pytest.raises(serq.CompileError):
        serq.compile(source='use "parts/desk.sq";\n' + PROGRAM)


def test_a_run_error_brings_what_was_recorded() -> None:
    with pytest.raises(serq.RunError) as caught:
        serq.run(
            serq.compile(
                source=PROGRAM.replace("observe done = now;", "observe done = now; branch (serial) { }")
            )
        )
    assert caught.value.records is not None
    report = serq.Report(caught.value.records)
    assert values(report) == [2.0, 4.0, 6.0] and report.stopped


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": "x.sq", "source": "run { horizon 1; }"},
        {"path": PROGRAM},
        {"source": PROGRAM, "horizon": -1},
        {"source": PROGRAM, "warmup": float("nan")},
        {"source": PROGRAM, "seed": -1},
        {"source": PROGRAM, "seed": 2**64},
        {"source": PROGRAM, "arrivals": 2.5},
        {"path": "stage server : fifo;"},
        {"source": PROGRAM, "arrivals": 0},
    ],
)
def test_calls_that_cannot_be_meant(arguments: dict[str, object]) -> None:
    with pytest.raises(serq.UsageError):
        serq.compile(**arguments)  # type: ignore[arg-type]


def test_progress_is_told_time_and_events() -> None:
    calls: list[tuple[float, int]] = []
    text = PROGRAM.replace("batch(3)", "renewal(0.001)")
    serq.run(serq.compile(source=text), progress=lambda now, events: calls.append((now, events)))
    assert calls == sorted(calls) and len(calls) > 1


def test_a_run_takes_what_compiling_takes(tmp_path: Path) -> None:
    """Three jobs of `service` seconds, one after the other: done after 1, 2 and 3 times as long."""
    file = tmp_path / "program.sq"
    file.write_text(PROGRAM, "utf-8")
    assert values(serq.run(file)) == [2.0, 4.0, 6.0]
    assert values(serq.run(file, sets={"service": 3}, horizon=100)) == [3.0, 6.0, 9.0]
    assert values(serq.run(source=PROGRAM, sets={"service": "1 + 0.5"})) == [1.5, 3.0, 4.5]
    with pytest.raises(serq.UsageError, match="sets: the program is compiled already; give sets to serq"):
        serq.run(serq.compile(file), sets={"service": 3})


def test_a_run_into_a_folder_named_by_its_path(tmp_path: Path) -> None:
    report = serq.run(source=PROGRAM, out=tmp_path / "run")
    assert serq.read_run(tmp_path / "run").to_json() == report.to_json()
