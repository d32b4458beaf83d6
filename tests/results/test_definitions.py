"""The page of metrics is the table in the code, and its formulas are what the code computes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.ir.figures import FIELDS, REQUEST_LATENCIES
from serq.results.definitions import DEFINITIONS, definition, markdown
from serq.results.engines import METRICS
from serq.results.json_form import MONEY_FIELDS, THROUGHPUT_FIELDS
from tests.shared import ROOT

METHODS = {"mser5", *MONEY_FIELDS}
"""What no report has, unless it is asked for it, and what it does."""


def test_the_page_shows_the_table() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text("utf-8").endswith(markdown())


def test_every_latency_of_requests_and_nothing_unknown_is_defined() -> None:
    names = [found.name for found in DEFINITIONS]
    assert set(REQUEST_LATENCIES) <= set(names) and len(set(names)) == len(names)
    figures = {field for fields in FIELDS.values() for field in fields}
    assert set(names) - set(REQUEST_LATENCIES) <= figures | {*METRICS, *THROUGHPUT_FIELDS, *METHODS}


def test_the_formulas_of_requests_give_what_sessions_read() -> None:
    """Every formula is evaluated over the columns of the frame. Drafts make itl and tpot differ."""
    text = """
    stage gpu : vllm {
      num_gpu_blocks 99; max_model_len 999; max_num_batched_tokens 128; async_scheduling false;
      speculative ngram { k 2; accept 0.5, 0.5; }
      cost 0.01 + 0.001 * tokens;
    }
    workload { arrive poisson(9); }
    session {
      request r on gpu (60, 9);
      observe ttft = ttft(r); observe tpot = tpot(r); observe itl = itl(r);
      observe e2e = e2e(r); observe queue_time = queue_time(r);
    }
    run { arrivals 40; horizon 1000; }
    """
    report = serq.run(serq.compile(source=text))
    frame = report.requests.set_index("session").sort_index()
    assert len(frame) == 40
    for found in DEFINITIONS:
        if found.name in REQUEST_LATENCIES:
            read = report.observe(found.name).set_index("session")["value"].sort_index()
            computed = frame.eval(found.formula)
            assert (abs(computed - read) <= 1e-12).all(), found.name
    assert (report.observe("itl")["value"] > report.observe("tpot")["value"]).any()
    normalized = definition("normalized_latency")
    assert normalized is not None
    mean = frame.eval(normalized.formula).mean()
    assert report.engines.loc[0, "normalized_latency_mean"] == pytest.approx(mean, rel=1e-12)
    assert report.engines.loc[0, "tpot_mean"] < mean


def test_explain() -> None:
    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["explain", *arguments])
        return result.exit_code, result.output

    code, text = run("TTFT")
    assert code == 0 and text.startswith("ttft = first_token - sent  [seconds by convention]\n")
    code, text = run()
    assert code == 0 and text.count("\n") == len(DEFINITIONS)
    assert run("ttff") == (2, "error: no metric `ttff`; did you mean `ttft`?\n")
    assert run("speed")[0] == 2
