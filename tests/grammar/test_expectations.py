"""`slo` and `expect`: what they link to, what they refuse (design_language.md)."""

from __future__ import annotations

import pytest

from serq.grammar.printer import format_source
from serq.ir.codec import decode, encode
from serq.ir.expectations import Expectation, ExpectedSamples, Objective
from serq.ir.expressions import Binary, Number, ReportRead
from serq.ir.printer import expectation
from serq.source import SourceFile
from tests.grammar.texts import codes, errors, link, pointed, program

DEPLOYMENT = """
stage gpu : vllm { num_gpu_blocks 100; max_model_len 4096; cost 1; }
stage npu[2] : vllm { num_gpu_blocks 100; max_model_len 4096; cost 1; }
stage net : delay;
pool slots { cap 2; }
pool both { cap 2; }
stage both : delay;
workload { arrive batch(1); }
session {
  request r on gpu (100, 5) class (1);
  observe response = e2e(r);
  observe preemptions = preempted(r);
  observe ttft = ttft(r);
}
gauge busy = running(gpu);
run { horizon 10; }
"""


def expected(line: str) -> Expectation | ExpectedSamples:
    (node,) = program(DEPLOYMENT + line).expectations
    return node


def objective(line: str) -> Objective:
    (node,) = program(DEPLOYMENT + line).objectives
    return node


def figure(text: str) -> object:
    node = expected(f"expect {text} > 0;")
    assert isinstance(node, Expectation) and isinstance(node.condition, Binary)
    return node.condition.left


def test_figures_mean_rows_of_the_report() -> None:
    assert figure("mean(response)") == ReportRead("mean", "observation", "response")
    assert figure("p999(response)") == ReportRead("p999", "observation", "response")
    assert figure("mean(busy)") == ReportRead("mean", "gauge", "busy")
    assert figure("mean_wait(slots)") == ReportRead("mean_wait", "pool", "slots")
    assert figure("mean_wait(net)") == ReportRead("mean_wait", "stage", "net")
    assert figure("steps(npu[1])") == ReportRead("steps", "engine", "npu", Number(1.0))
    assert figure("mean_number(npu[1])") == ReportRead("mean_number", "stage", "npu", Number(1.0))
    assert figure("ended") == ReportRead("ended")


def test_lists_of_samples() -> None:
    assert expected("expect order(response) == [1, 2 + 1];") == ExpectedSamples("response", (1, 3), "order")
    assert expected("expect values(ttft) == [inf];") == ExpectedSamples("ttft", (float("inf"),), "values")


def test_a_let_or_a_def_of_the_name_of_a_figure_wins() -> None:
    """Compatibility rule 1."""
    (node,) = program(f"let ended = 3; {DEPLOYMENT} expect ended == 3;").expectations
    assert node == Expectation(Binary("==", Number(3.0), Number(3.0)))
    (node,) = program(f"def mean(x) = 2 * x; {DEPLOYMENT} expect mean(4) == 8;").expectations
    assert node == Expectation(Binary("==", Binary("*", Number(2.0), Number(4.0)), Number(8.0)))


def test_a_parameter_of_a_def_stands_for_a_row() -> None:
    text = f"def spread(x) = largest(x) - smallest(x); {DEPLOYMENT} expect spread(response) < 1;"
    (node,) = program(text).expectations
    assert expectation(node) == "expect largest(response) - smallest(response) < 1"
    family = f"def done(s, j) = completed(s[j]); {DEPLOYMENT} expect done(npu, 1) > 0;"
    (node,) = program(family).expectations
    assert expectation(node) == "expect completed(npu[1]) > 0"


def test_words_stay_names() -> None:
    session = "session { set expect = 1; hold slo (expect) { } }"
    assert codes(f"pool slo {{ cap 1; }} workload {{ arrive batch(1); }} {session}") == []


def test_objectives() -> None:
    assert objective("slo ttft p95 < 1.5 for class 1;") == Objective("ttft", "request", "p95", "<", 1.5, 1.0)
    assert objective("slo response mean >= 2 * 3;") == Objective("response", "observation", "mean", ">=", 6.0)
    assert objective("slo ttft p50 < 1;").source == "request"
    without = "workload { arrive batch(1); } session { observe ttft = now; } slo ttft p50 < 1;"
    assert program(without).objectives[0].source == "observation"


@pytest.mark.parametrize(
    ("line", "code", "under", "help_"),
    [
        ("expect mean(respons) > 0;", "E226", "respons", "did you mean `response`?"),
        ("expect order(respons) == [1];", "E226", "respons", "did you mean `response`?"),
        ("expect men(response) > 0;", "E202", "men", "did you mean `mean`?"),
        ("expect completd(npu[0]) > 0;", "E202", "completd", "did you mean `completed`?"),
        ("expect steps(net) > 0;", "E226", "net", None),
        ("expect preemptions(both) > 0 && mean_wait(both) > 0;", "E226", "both", None),
        ("expect response > 0;", "E201", "response", "`mean(response)` is one"),
        ("expect steps(npu) > 0;", "E409", "steps(npu)", "write `npu[…]`"),
        ("expect steps(npu[2]) > 0;", "E410", "2", None),
        ("expect mean(response[0]) > 0;", "E409", "mean(response[0])", None),
        ("expect mean(3) > 0;", "E204", "3", None),
        ("expect mean(response, busy) > 0;", "E205", "mean(response, busy)", None),
        ("expect mean(response) == [1];", "E227", "mean(response)", None),
        ("expect order(response) < [1];", "E227", "expect order(response) < [1];", None),
        ("expect now > 1;", "E402", "now", None),
        ("expect running(gpu) > 0;", "E406", "running(gpu)", None),
        ("expect used(slots) > 0;", "E406", "used(slots)", None),
        ("expect ~exp(1) > 0;", "E405", "~exp(1)", None),
        ("expect serial > 0;", "E403", "serial", None),
        ("expect e2e(r) > 0;", "E403", "e2e(r)", None),
        ("expect ended > 1 within 1;", "E446", "1", None),
        ("expect ended == 1 within 0 - 2;", "E446", "0 - 2", None),
        ("expect goodput > 1;", "E446", "goodput", None),
        ("slo ttff p95 < 1;", "E226", "ttff", "did you mean `ttft`?"),
        ("slo ttft p49 < 1;", "E226", "p49", None),
        ("slo ttft p95 == 1;", "E227", "slo ttft p95 == 1;", None),
        ("slo response p95 < 1 for class 1;", "E446", "1", None),
        ("slo ttft p95 < ended;", "E206", "ended", None),
    ],
)  # fmt: skip
def test_refused(line: str, code: str, under: str, help_: str | None) -> None:
    wrong = errors(DEPLOYMENT + line)[0]
    assert (wrong.code, pointed(wrong)) == (code, under)
    if help_ is not None:
        assert wrong.help == help_


def test_a_misspelt_figure_of_the_run_gets_the_nearest_one() -> None:
    """Attributes are no figures, so the nearest of them is not offered."""
    wrong = errors(DEPLOYMENT + "expect goodput_shar > 0.9;")[0]
    assert (wrong.code, wrong.help) == ("E201", "did you mean `goodput_share`?")


def test_nothing_is_said_about_names_in_parts_that_cannot_be_read() -> None:
    text = "workload { arrive batch(1); } session { observe x 3; } run { horizon 1; } expect mean(x) > 1;"
    assert [wrong.code for wrong in errors(text)] == ["E110"]


def test_places_are_kept_outside_of_the_program() -> None:
    linked = link(f"{DEPLOYMENT}expect ended == 1;\nexpect arrivals == 1;\n")
    assert [place.text for place in linked.source_map.expectations] == [
        "expect ended == 1;",
        "expect arrivals == 1;",
    ]


def test_an_ir_file_asks_the_same() -> None:
    asked = "slo e2e p99 <= 3; expect order(ttft) == [1]; expect mean(ttft) == 1 within 2 * ci(ttft);"
    before = program(DEPLOYMENT + asked)
    assert decode(encode(before)) == before


def test_the_formatter_has_a_form_for_them() -> None:
    ugly = "slo  ttft p95<1.5 for class 0 ;expect order( x )==[ 1,2 ];expect mean(x)==1 within .5;\n"
    pretty = "slo ttft p95 < 1.5 for class 0;\nexpect order(x) == [1, 2];\nexpect mean(x) == 1 within .5;\n"
    assert format_source(SourceFile("x.sq", ugly)) == pretty
