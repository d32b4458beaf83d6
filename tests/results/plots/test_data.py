"""What every figure draws, against values computed by hand."""

from math import isnan, nan

import pytest

import serq
from serq.errors import UsageError
from serq.results.plots import FIGURES, engines, latency, studies
from serq.results.plots.over_time import Slices
from serq.results.plots.style import WIDTH, save

# One request at a time, a step a second: prompt of 16 tokens, 3 output tokens, two of them sent at time 0.
PROGRAM = """
stage e : vllm { max_num_seqs 1; max_num_batched_tokens 32; max_model_len 64; num_gpu_blocks 11;
                 async_scheduling false; enable_prefix_caching false; cost 1; }
workload { arrive batch(2); }
session { request r on e (16, 3); observe done = now; }
run { horizon 100; }
"""


@pytest.fixture(scope="module")
def records():
    return serq.run(serq.compile(source=PROGRAM), steps=True).records


def test_latencies(records):
    first, per_token, whole = latency.latency_distributions(records)
    assert (first.name, list(first.values)) == ("time to first token", [1.0, 4.0])
    assert list(per_token.values) == [1.0, 1.0]
    assert list(whole.values) == [3.0, 6.0]


def test_timeline(records):
    (row,) = engines.timelines(records)
    assert row.name == "e" and len(row.time) == 200 and row.time[0] == pytest.approx(6 / 400)
    assert set(row.running) == {1.0}
    # the second request waits in seconds 0 to 3; a request of 16 tokens holds 1 of 10 usable blocks, then 2
    assert row.waiting[0] == 1.0 and row.waiting[-1] == 0.0
    assert sum(row.waiting) / 200 == pytest.approx(0.5)
    assert row.kv_usage[0] == pytest.approx(0.1) and row.kv_usage[50] == pytest.approx(0.2)


def test_budget(records):
    (use,) = engines.budget_uses(records)
    assert (use.name, list(use.tokens), use.budget) == ("e", [1, 1, 1, 1, 16, 16], 32)


def test_composition_by_attention_state(records):
    (row,) = engines.step_shares(records)
    width = 6 / 200
    assert set(row.tokens) == {"PrefillNoCache", "DecodeOnly"}
    assert sum(row.tokens["PrefillNoCache"]) * width == pytest.approx(32)
    assert sum(row.tokens["DecodeOnly"]) * width == pytest.approx(4)
    assert row.tokens["PrefillNoCache"][0] == pytest.approx(16.0)


def test_composition_without_rows():
    (row,) = engines.step_shares(serq.run(serq.compile(source=PROGRAM)).records)
    assert list(row.tokens) == ["prefill", "decode"]
    assert sum(row.tokens["decode"]) * 6 / 200 == pytest.approx(4)


def test_slices_average_over_time():
    slices = Slices(0.0, 4.0, 4)
    assert slices.middles() == [0.5, 1.5, 2.5, 3.5]
    # 2 from 0.5 to 1.5, then 4 until 2: slice 1 is half 2 and half 4; nothing after
    averages = slices.average([0.5, 1.5], [1.5, 2.0], [2, 4])
    assert averages[:2] == [2.0, 3.0] and isnan(averages[2])
    assert slices.average([], [], [], idle=0.0) == [0.0] * 4
    assert slices.total([0.5], [2.5], [8]) == [2.0, 4.0, 2.0, 0.0]


def test_nothing_to_draw():
    empty = serq.run(serq.compile(source="stage s : fifo; run { horizon 1; }")).records
    for draw in FIGURES.values():
        with pytest.raises(UsageError):
            draw(empty)


POINTS = [
    {"rate": "1", "B": "8", "ttft.p99": "0.5", "ttft.p99.ci95": "0.1", "good": "1"},
    {"rate": "2", "B": "8", "ttft.p99": "1.5", "ttft.p99.ci95": "", "good": "2"},
    {"rate": "1", "B": "16", "ttft.p99": "0.4", "ttft.p99.ci95": "0.1", "good": "1"},
    {"rate": "2", "B": "16", "ttft.p99": "", "ttft.p99.ci95": "", "good": "3"},
]


def test_lines_of_a_study():
    one, two = studies.lines(POINTS, "rate", "ttft.p99", "B")
    assert (one.name, one.x, one.y) == ("B 8", [1.0, 2.0], [0.5, 1.5])
    assert one.half_width[0] == 0.1 and isnan(one.half_width[1])
    assert (two.name, two.y) == ("B 16", [0.4])
    assert studies.crossing(one, 1.0) == pytest.approx(1.5)
    assert studies.crossing(one, 2.0) is None
    with pytest.raises(UsageError, match="no column `rat`"):
        studies.lines(POINTS, "rat", "ttft.p99")


def test_grid_of_a_study():
    grid = studies.grid(POINTS, "rate", "B", "ttft.p99")
    assert (grid.x, grid.y) == ([1.0, 2.0], [8.0, 16.0])
    assert grid.values[0] == [0.5, 1.5] and grid.values[1][0] == 0.4 and isnan(grid.values[1][1])


def test_front_of_a_study():
    rows = [{"cost": c, "gain": g} for c, g in [(1, 1), (2, 3), (2, 2), (3, 3), (4, 5), (nan, 9)]]
    assert studies.front(rows, "cost", "gain") == [0, 1, 4]
    # both wanted small: one point is best in both; both wanted large: the one with 4 and 5
    assert studies.front(rows, "cost", "gain", ("less", "less")) == [0]
    assert studies.front(rows, "cost", "gain", ("more", "more")) == [4]
    rows = [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 2}]
    assert studies.front(rows, "a", "b", ("less", "less")) == [0, 1]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_the_same_bytes_each_time(records, tmp_path, name):
    files = [save(FIGURES[name](records), tmp_path / f"{number}.svg") for number in (1, 2)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert FIGURES[name](records).get_figwidth() == WIDTH


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("latency", "Latencies of requests"),
        ("timeline", "Requests and KV cache over time"),
        ("lanes", "Waiting requests by lane of the queue"),
        ("composition", "Tokens over time by what they belong to"),
        ("budget", "Tokens in a step against the budget"),
    ],
)
def test_titles_say_what_is_shown_and_of_which_program(records, name, shows):
    assert FIGURES[name](records, "engine.sq").get_suptitle() == f"{shows}: engine.sq"
    assert FIGURES[name](records).get_suptitle() == shows


def test_a_report_names_the_file_of_its_program(tmp_path):
    assert serq.run(serq.compile(source=PROGRAM)).plot().get_suptitle() == "Latencies of requests"
    (tmp_path / "one.sq").write_text(PROGRAM)
    report = serq.run(tmp_path / "one.sq", out=tmp_path / "kept")
    assert report.plot("lanes").get_suptitle().endswith(": one.sq")
    assert serq.read_run(tmp_path / "kept").plot("lanes").get_suptitle().endswith(": kept")


def test_titles_of_a_study():
    points = [
        {"rate": "1", "B": "1", "requests.ttft.p99": "2"},
        {"rate": "2", "B": "1", "requests.ttft.p99": "3"},
    ]
    shown = "Time to first token, p99 over rate"
    assert studies.curve(points, "rate", "requests.ttft.p99", of="a.sq").get_suptitle() == f"{shown}: a.sq"
    assert studies.heat_map(points, "rate", "B", "requests.ttft.p99").get_suptitle() == f"{shown} and B"
    assert (
        studies.pareto(points, "rate", "requests.ttft.p99").get_suptitle()
        == "Points that no other beats in both"
    )


def test_figures_of_a_study_draw_their_names(tmp_path):
    drawn = {
        "curve": studies.curve(POINTS, "rate", "ttft.p99", by="B", limit=1.0),
        "map": studies.heat_map(POINTS, "rate", "B", "ttft.p99"),
        "front": studies.pareto(POINTS, "ttft.p99", "good", ["rate", "B"]),
    }
    text = {name: save(figure, tmp_path / f"{name}.svg").read_text() for name, figure in drawn.items()}
    assert "B 16" in text["curve"] and ">1.5<" in text["curve"]
    assert ">0.4<" in text["map"] and "rate" in text["map"]
    assert "rate 1, B 16" in text["front"]


def ticks(xs):
    points = [{"x": str(x), "y": "1"} for x in xs]
    panel = studies.curve(points, "x", "y").axes[0]
    low, high = panel.get_xlim()
    return [tick for tick in panel.get_xticks() if low <= tick <= high], panel.get_xscale()


def test_ticks_stand_where_settings_can_be():
    """Whole settings have no half; settings far apart have a tick each, and as much room as the others."""
    assert ticks([1, 2, 3, 4]) == ([1, 2, 3, 4], "linear")
    assert ticks([0.5, 1, 2, 25]) == ([0.5, 1, 2, 25], "log")
    assert any(tick % 1 for tick in ticks([1, 1.5, 2])[0])
    assert ticks([0, 100])[1] == "linear"


def test_an_interval_of_what_is_never_negative_ends_at_zero():
    points = [{"x": "1", "y": "2", "y.ci95": "5"}, {"x": "2", "y": "3", "y.ci95": "1"}]
    panel = studies.curve(points, "x", "y").axes[0]
    band = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert (min(band), max(band)) == (0, 7)
    points[0]["y"] = "-2"
    assert min(studies.curve(points, "x", "y").axes[0].collections[0].get_paths()[0].vertices[:, 1]) == -7
