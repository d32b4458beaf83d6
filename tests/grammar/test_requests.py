"""`request h on S (p, o) …;`, its clauses, and what a session reads by handle."""

from __future__ import annotations

import pytest

from serq.ir.codec import decode, encode
from serq.ir.nodes import Attribute, Number, Observe, Request, RequestRead, Reusable, StageRead, StageRef
from serq.ir.printer import expression, statement
from serq.ir.serving import FetchedFrom, Prefix
from tests.grammar.texts import codes, errors, pointed, program

ENGINE = "num_gpu_blocks 100; max_model_len 4096; cost 0.01;"
GPU = f"stage gpu : vllm {{ {ENGINE} }} "


def sent(clauses: str, above: str = "") -> Request:
    made = program(f"{GPU} {above} session {{ request r on gpu (10, 5) {clauses}; }}").session[0]
    assert isinstance(made, Request)
    return made


def test_a_request() -> None:
    assert sent("") == Request("r", StageRef("gpu"), Number(10.0), Number(5.0), id=0)


def test_every_clause() -> None:
    made = sent(
        "follows r prefix (3, 8) abort after (60) class (1) priority (2) max_tokens (4) min_tokens (1) "
        "job (9) immediate (1) accept (0.5, 0.25)"
    )
    assert made == Request(
        "r",
        StageRef("gpu"),
        Number(10.0),
        Number(5.0),
        follows="r",
        prefix=Prefix(Number(3.0), Number(8.0)),
        abort_after=Number(60.0),
        label=Number(1.0),
        priority=Number(2.0),
        max_tokens=Number(4.0),
        min_tokens=Number(1.0),
        job=Number(9.0),
        immediate=Number(1.0),
        accept=(Number(0.5), Number(0.25)),
        id=0,
    )
    assert sent("traced").traced


def test_fetching_over_a_connector() -> None:
    text = f"""
        stage wire : ps(1); connector c : transfer {{ over wire; work tokens; }}
        stage one : vllm {{ {ENGINE} kv_connector c; kv_role kv_producer; }}
        stage two : vllm {{ {ENGINE} kv_connector c; kv_role kv_consumer; }}
        session {{ request p on one (10, 1); request d on two (10, 5) from p via c; }}"""
    made = program(text).session[1]
    assert isinstance(made, Request) and made.fetched == FetchedFrom("p", "c")
    assert codes(text.replace("kv_consumer", "kv_producer")) == ["E437"]
    assert codes(text.replace("kv_role kv_producer;", "")) == ["E217"]
    assert codes(text.replace("via c", "via d")) == ["E209"]


def test_reads_by_handle() -> None:
    reads = "observe x = ttft(r); observe y = reusable(gpu, r) + running(gpu);"
    text = f"session {{ request r on gpu (10, 5); {reads} }}"
    _, x, y = program(GPU + text).session
    assert isinstance(x, Observe) and x.value == RequestRead("ttft", "r")
    assert isinstance(y, Observe) and expression(y.value) == "reusable(gpu, r) + running(gpu)"
    assert y.value.left == Reusable(StageRef("gpu"), "r")  # type: ignore[union-attr]
    assert y.value.right == StageRead("running", StageRef("gpu"))  # type: ignore[union-attr]


def test_a_def_of_a_metrics_name_wins() -> None:
    text = "def ttft(x) = x + 1; session { request r on gpu (10, 5); set r = 2; observe x = ttft(r); }"
    made = program(GPU + text).session[2]
    assert isinstance(made, Observe) and expression(made.value) == "r + 1"


def test_a_request_is_printed() -> None:
    assert statement(sent("class (1)")) == "request r on gpu (10, 5)"


def test_handles_pass_through_defs() -> None:
    text = """
        def late(h) = ttft(h) > 1;
        def ask(h, s, n) { request h on s (n, 5); observe late = late(h); }
        session { ask(first, gpu, 10); ask(second, gpu, 20); observe x = late(first) + late(second); }"""
    requests = [node for node in program(GPU + text).session if isinstance(node, Request)]
    assert [(node.handle, node.stage.name) for node in requests] == [("first", "gpu"), ("second", "gpu")]


def test_what_a_def_sends_may_not_change_its_argument() -> None:
    text = "def ask(n) { request r on gpu (n, 5); } session { request r on gpu (9, 5); ask(generated(r)); }"
    assert codes(GPU + text) == ["E308"]


def test_the_two_sided_request_stays() -> None:
    text = "workload { session { turn; request; } } server { run net (1); } stage net : delay;"
    assert codes(text) == []


def test_ir_files_hold_requests() -> None:
    made = program(f"{GPU} session {{ request r on gpu (10, 5) follows r class (1); observe t = ttft(r); }}")
    assert decode(encode(made)) == made


HIDDEN = "workload { init { set out = 5; set p = 10; } hidden out, p; } "


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        ("request r on gpu (10, out) accept (out / 10);", []),
        ("request r on gpu (p, 5);", ["E404"]),
        ("request r on gpu (10, 5) max_tokens (out);", ["E404"]),
        ("request r on gpu (10, 5) priority (out);", ["E404"]),
        ("request r on gpu (10, 5) abort after (out);", []),
        ("request r on gpu (10, 5); observe x = generated(r);", []),
    ],
)
def test_what_may_be_hidden(statements: str, found: list[str]) -> None:
    assert codes(f"{GPU}{HIDDEN}session {{ {statements} }}") == found


@pytest.mark.parametrize(
    ("statements", "code", "place"),
    [
        ("observe x = ttft(r);", "E435", "ttft(r)"),
        ("request r on gpu (10, 5); observe x = e2e(s);", "E435", "e2e(s)"),
        ("request r on gpu (10, 5) follows s;", "E435", "follows s"),
        ("request r on gpu (10, 5) traced prefix (1, 2);", "E436", "prefix (1, 2)"),
        ("request r on gpu (10, 5) class (1) class (2);", "E223", "class (2)"),
        ("request r on gpu (10, 5) clas (1);", "E222", "clas (1)"),
        ("request r on gpu (10, 5) prefix (1);", "E205", "prefix (1)"),
        ("request r on gpu (0, 5);", "E412", "0"),
        ("request r on gpu (10, 2.5);", "E412", "2.5"),
        ("request r on gpu (10, 5) abort after (0 - 1);", "E412", "abort after (0 - 1)"),
        ("run gpu (10);", "E434", "run gpu (10);"),
        ("request r on net (10, 5);", "E434", "net"),
        ("request r on gpu (10, 5); observe x = ttft(3);", "E204", "3"),
        ("request r on gpu (10, 5); observe x = work(gpu);", "E411", "work(gpu)"),
        ("observe x = kv_usage(net);", "E411", "kv_usage(net)"),
        ("request r on gpu (10, 5); observe x = reusable(net, r);", "E411", "reusable(net, r)"),
        ("request r on gpu (10, 5) from r via c;", "E209", "c"),
    ],
)
def test_mistakes(statements: str, code: str, place: str) -> None:
    (error,) = errors(f"{GPU} stage net : delay; session {{ {statements} }}")
    assert (error.code, pointed(error)) == (code, place)


def test_a_request_takes_time() -> None:
    assert codes(GPU + "session { loop { request r on gpu (10, 5); } }") == []


def test_metrics_are_of_the_session_that_sent() -> None:
    text = "pool kv { cap 9; queue by (ttft(r)); } session { request r on gpu (10, 5); hold kv (1) { } }"
    assert codes(GPU + text) == ["E403"]


def test_an_attribute_may_have_any_added_name() -> None:
    text = "session { set priority = 3; request r on gpu (10, 5) priority (priority); }"
    made = program(GPU + text).session[1]
    assert isinstance(made, Request) and made.priority == Attribute("priority")
