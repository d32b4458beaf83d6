"""The page of a run: the answer on top, complete, self-contained, well-formed, for program and folder."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.results.definitions import DEFINITIONS
from serq.results.engines import engine_figures
from serq.results.page import as_page
from serq.results.page.answer import bottleneck, headlines, verdicts

# One slot, two requests sent at 0, steps of 1: TTFT 1 and 4. The second waits from 0 to 3 of 6 seconds.
PROGRAM = """
stage e : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false; cost 1; }
workload { arrive batch(2); }
session { request r on e (16, 3); observe t = ttft(r); }
slo ttft p99 < 5;
slo ttft p50 < 0.5;
run { horizon 6; }
expect count(t) == 2;
"""

VOID = {"meta", "img", "br"}


class Checker(HTMLParser):
    """Collects ids, references and text; every tag that is opened must be closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.references.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def report():
    return serq.run(serq.compile(source=PROGRAM))


@pytest.fixture(scope="module")
def page(report):
    return as_page(report, "a <b> run")


def test_the_answer(report) -> None:
    rows = [(row.good, row.asked) for row in verdicts(report.answers)]
    assert rows == [(True, "slo ttft p99 < 5"), (False, "slo ttft p50 < 0.5"), (True, "expect count(t) == 2")]
    shown = headlines(report.records, engine_figures(report.records), report.answers)
    assert {card.name: card.value for card in shown} == {
        "goodput": "0", "throughput": "0.3333", "TTFT p99": "4", "TPOT p99": "1", "E2E p99": "6"
    }  # fmt: skip
    (sentence,) = bottleneck(report.records)
    assert sentence == (
        "`e` had a step in flight 100.0 % of the time; in 50.0 % of that somebody waited, mostly for a slot: "
        "`max_num_seqs` requests ran"
    )


def test_a_busy_engine_with_room_says_what_room_is() -> None:
    """With two slots for two requests nobody waits, and 3 tokens are 3 steps of 1 s: half of the run."""
    report = serq.run(serq.compile(source=PROGRAM.replace("max_num_seqs 1", "max_num_seqs 2")))
    (sentence,) = bottleneck(report.records)
    assert sentence.startswith("`e` had a step in flight 50.0 % of the time, ")
    assert sentence.endswith(
        "and hardly anybody waited: those steps had slots, token budget and KV blocks left, "
        "so it has room for more requests"
    )


def test_it_is_well_formed_and_needs_nothing_else(page: str) -> None:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    inside = {f"#{name}" for name in checker.ids}
    assert all(r in inside or r.startswith("data:") for r in checker.references)
    assert "<script" not in page and not re.search(r"url\((?!#)", page)
    assert "a &lt;b&gt; run" in page
    svgs = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(svgs) == 5  # latency, timeline, lanes, composition, budget
    for svg in svgs:
        ElementTree.fromstring(svg)
        assert "currentColor" in svg and "#010203" not in svg


def test_everything_is_there(page: str) -> None:
    for found in DEFINITIONS:
        assert f"<th>{found.name}</th>" in page
    assert "step for step, as vLLM 0.27.1." in page and "data:image/svg" in page
    for words in ("async_scheduling", "slo ttft p99 &lt; 5", "observe t = ttft(r)"):
        assert words in page


def test_a_program_and_its_folder_give_the_same_answer(tmp_path: Path, page: str) -> None:
    (tmp_path / "p.sq").write_text(PROGRAM)
    run = CliRunner().invoke
    assert run(main, ["run", str(tmp_path / "p.sq"), "--out", str(tmp_path / "run")]).exit_code == 0
    for source in ("p.sq", "run"):
        done = run(main, ["report", str(tmp_path / source), "-o", str(tmp_path / f"{source}.html")])
        assert done.exit_code == 0, done.output
    one, other = ((tmp_path / name).read_text() for name in ("p.sq.html", "run.html"))
    assert (
        re.search("<ul class='verdicts'>.*?<h2", one, re.DOTALL)[0]
        == re.search("<ul class='verdicts'>.*?<h2", other, re.DOTALL)[0]
    )
    assert run(main, ["report", str(tmp_path / "p.sq"), "-o", str(tmp_path / "no" / "x.html")]).exit_code == 1


def test_a_program_without_engines_has_a_page_too() -> None:
    text = "stage d : fifo; workload { arrive batch(3); } session { run d (1); } run { horizon 4; }"
    page = as_page(serq.run(serq.compile(source=text)), "queue")
    assert "The busiest stage is <code>d</code>, in use 75.0 % of the time." in page
