"""`serq plot` and `serq timeline` as commands."""

from click.testing import CliRunner

from serq.cli import main

PROGRAM = """
let cost = 1;  let seqs = 4;
stage e : vllm { max_num_seqs seqs; max_model_len 64; num_gpu_blocks 50; cost cost; }
workload { arrive batch(6); }
session { request r on e (16, 3); observe t = ttft(r); }
run { horizon 100; }
"""


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_program_is_run_and_drawn(tmp_path):
    file = tmp_path / "p.sq"
    file.write_text(PROGRAM)
    result = invoke("plot", file, "-o", tmp_path / "out", "--format", "svg")
    assert result.exit_code == 0, result.output
    names = {"latency", "timeline", "lanes", "composition", "budget"}
    assert {path.stem for path in (tmp_path / "out").iterdir()} == names
    assert invoke("plot", file, "-o", tmp_path / "out", "--figure", "latncy").exit_code == 2
    assert invoke("plot", file, "-o", tmp_path / "out", "--x", "cost").exit_code == 2


def test_a_study_is_drawn(tmp_path):
    file, out = tmp_path / "p.sq", tmp_path / "study"
    file.write_text(PROGRAM)
    axes = ("--set", "cost=1,2", "--set", "seqs=1,2")
    assert invoke("sweep", file, *axes, "--out", out, "--jobs", 1).exit_code == 0
    result = invoke("plot", out, "-o", tmp_path / "pictures", "--y", "t.mean", "--y", "t.p99")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert names == {
        "observes.t.mean.png", "observes.t.mean.map.png", "observes.t.p99.png", "observes.t.p99.map.png",
        "pareto.png",
    }  # fmt: skip


def test_which_side_of_a_figure_is_better(tmp_path):
    """Of two latencies both are wanted small; a share within the objectives is wanted large."""
    file, out = tmp_path / "p.sq", tmp_path / "study"
    file.write_text(PROGRAM + "slo ttft p99 < 5;")
    assert invoke("sweep", file, "--set", "cost=1,2", "--out", out, "--jobs", 1).exit_code == 0
    for one, other, words in (
        ("ttft.p99", "tpot.p99", ("first token, p99 [s] (less is", "output token, p99 [s] (less is better)")),
        ("goodput_share", "ttft.mean", ("goodput: share (more is better)", "mean [s] (less is better)")),
    ):
        options = ("--y", one, "--y", other, "--format", "svg", "--figure", "pareto")
        assert invoke("plot", out, "-o", tmp_path / "pictures", *options).exit_code == 0
        drawn = (tmp_path / "pictures" / "pareto.svg").read_text()
        assert all(word in drawn for word in words)


def test_a_timeline_is_written(tmp_path):
    file = tmp_path / "p.sq"
    file.write_text(PROGRAM)
    result = invoke("timeline", file, "-o", tmp_path / "run.json")
    assert result.exit_code == 0 and (tmp_path / "run.json").read_text().startswith('{"displayTimeUnit"')
    assert invoke("timeline", file, "-o", tmp_path / "no" / "run.json").exit_code == 1


def test_the_folder_of_a_run_is_drawn_like_its_program(tmp_path):
    """The title names the source: program and folder have one name here."""
    file, folder = tmp_path / "p.sq", tmp_path / "kept" / "p.sq"
    file.write_text(PROGRAM)
    folder.parent.mkdir()
    assert invoke("run", file, "--out", folder).exit_code == 0
    assert invoke("plot", file, "-o", tmp_path / "one", "--figure", "latency").exit_code == 0
    result = invoke("plot", folder, "-o", tmp_path / "other")
    assert result.exit_code == 0, result.output
    names = {"latency", "timeline", "lanes", "composition", "budget"}
    assert {path.stem for path in (tmp_path / "other").iterdir()} == names
    one, other = (tmp_path / name / "latency.png" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    refused = invoke("plot", folder, "-o", tmp_path / "other", "--seed", 2)
    assert refused.exit_code == 2 and "--seed changes a program" in refused.output
    for source, name in ((file, "a.json"), (folder, "b.json")):
        assert invoke("timeline", source, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
