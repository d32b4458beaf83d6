"""Statements: numbered in the order of the program, their short forms written out."""

from __future__ import annotations

import pytest

from serq.ir.nodes import (
    Attribute,
    Binary,
    Block,
    Branch,
    Choose,
    Draw,
    Drop,
    End,
    Grow,
    Hold,
    HoldUnit,
    Lease,
    Load,
    Loop,
    Number,
    Observe,
    PoolRead,
    PoolRef,
    Release,
    Run,
    Set,
    StageRef,
    Turn,
)
from tests.grammar.texts import codes, errors, link, pointed, program

ONE, TWO, THREE = Number(1.0), Number(2.0), Number(3.0)
DECLARATIONS = """
pool p { cap 9; }
pool q { cap 9; }
pool fam[2] { cap 9; }
stage gpu : step { cost 1; memory p; }
stage think : delay;
stage up : ps(1);
stage down[2] : ps(2);
"""


def session(text: str) -> Block:
    return program(f"{DECLARATIONS} session {{ {text} }}").session


def test_every_statement_has_its_node() -> None:
    text = """
      turn; set a = 1; observe x = a; drop p; run think (2);
      run gpu prefill (3) growing p; run gpu decode (1);
      choose j in 2 by (j, -j);
      loop { branch (a) { end; } else { run think (1); } }
    """
    keys = (Attribute("j"), session("set j = 1; observe v = -j;")[1].value)  # type: ignore[union-attr]
    branch = Branch(Attribute("a"), (End(id=10),), (Run((StageRef("think"),), ONE, id=11),), id=9)
    assert session(text) == (
        Turn(id=0),
        Set("a", ONE, id=1),
        Observe("x", Attribute("a"), id=2),
        Drop(PoolRef("p"), id=3),
        Run((StageRef("think"),), TWO, id=4),
        Run((StageRef("gpu"),), THREE, "prefill", PoolRef("p"), id=5),
        Run((StageRef("gpu"),), ONE, "decode", id=6),
        Choose("j", TWO, keys, id=7),
        Loop((branch,), id=8),
    )


def test_a_hold_has_units_clauses_and_a_body() -> None:
    text = """
      hold p (1) reserve (2), fam[1] (3) reuse (1) {
        grow p (1); load p (2); release fam[1];
      } cache (3) lease p (inf)
      end;
    """
    member = PoolRef("fam", ONE)
    hold, end = session(text)
    assert hold == Hold(
        (HoldUnit(PoolRef("p"), ONE, TWO), HoldUnit(member, THREE)),
        (Grow(PoolRef("p"), ONE, id=1), Load(PoolRef("p"), TWO, id=2), Release(member, id=3)),
        reuse=ONE,
        cache=THREE,
        lease=Lease(0, Number(float("inf"))),
        id=0,
    )
    assert end == End(id=4)


def test_the_semicolon_behind_a_hold_is_free() -> None:
    assert session("hold p (1) { } cache (1); end;") == session("hold p (1) { } cache (1) end;")


def test_a_lease_names_its_unit() -> None:
    (hold,) = session("hold p (1), fam[0] (1), fam[1] (1) { } lease fam[1] (5)")
    assert isinstance(hold, Hold) and hold.lease == Lease(2, Number(5.0))


def test_branch_with_is_a_draw() -> None:
    (branch,) = session("branch with (0.3) { end; }")
    assert branch == Branch(Draw("bernoulli", (Number(0.3),), 0), (End(id=1),), id=0)


def test_statements_are_numbered_workload_first() -> None:
    linked = program("""
      session { observe x = 3; }
      workload { turn { observe x = 2; } init { observe x = 0; observe x = 1; } }
    """)
    assert [s.id for s in linked.workload.init] == [0, 1]
    assert [s.id for s in linked.workload.turn] == [2]
    assert [s.id for s in linked.session] == [3]


def test_every_statement_has_a_place() -> None:
    text = "pool p { }\nsession {\n  hold p (1) {\n    observe x = 1;\n  } cache (2);\n  loop { end; }\n}"
    linked = link(text)
    found = {number: place.text for number, place in linked.source_map.statements.items()}
    assert found == {
        0: "hold p (1) {\n    observe x = 1;\n  } cache (2);",
        1: "observe x = 1;",
        2: "loop { end; }",
        3: "end;",
    }


# --- serving forms (R-A-098, R-A-094, R-B-016) --------------------------------------------------------------


def test_prefill_and_decode_work_at_the_only_step_stage() -> None:
    assert session("prefill 2 + 1 growing p; decode (1);") == (
        Run((StageRef("gpu"),), Binary("+", TWO, ONE), "prefill", PoolRef("p"), id=0),
        Run((StageRef("gpu"),), ONE, "decode", id=1),
    )


def test_a_stage_named_like_the_role_comes_first_and_has_no_mode() -> None:
    text = "stage prefill : fifo; stage tool[2] : delay; stage gpu : step { cost 1; }"
    linked = program(f"{text} session {{ prefill 1; tool[1] 2; decode 3; }}")
    assert linked.session == (
        Run((StageRef("prefill"),), ONE, id=0),
        Run((StageRef("tool", ONE),), TWO, id=1),
        Run((StageRef("gpu"),), THREE, "decode", id=2),
    )


def test_on_names_the_stage() -> None:
    text = "stage a : step { cost 1; } stage b[2] : step { cost 1; } stage c : delay;"
    linked = program(f"{text} session {{ prefill on a (1); decode on b[1] 2; tool on c 3; }}")
    assert linked.session == (
        Run((StageRef("a"),), ONE, "prefill", id=0),
        Run((StageRef("b", ONE),), TWO, "decode", id=1),
        Run((StageRef("c"),), THREE, id=2),
    )


def test_on_may_also_be_a_name() -> None:
    assert session("set on = 1; decode on;")[1] == Run((StageRef("gpu"),), Attribute("on"), "decode", id=1)
    work = Binary("*", Attribute("on"), TWO)
    assert session("set on = 1; decode on * 2;")[1] == Run((StageRef("gpu"),), work, "decode", id=1)


def test_a_form_looks_only_at_the_stages_above_it() -> None:
    below = "session { decode 1; } stage gpu : step { cost 1; }"
    assert codes(below) == ["E210"]
    # a form in a def looks from where the def is used
    assert codes("def f() { decode 1; } stage gpu : step { cost 1; } session { f(); }") == []
    several = "stage a : step { cost 1; } session { decode 1; } stage b : step { cost 1; }"
    assert codes(several) == []


@pytest.mark.parametrize(
    "text",
    [
        "session { tool 1; }",
        "stage gpu : step { cost 1; } session { tool 1; }",
        "stage a : step { cost 1; } stage b : step { cost 1; } session { decode 1; }",
        "stage gpu : step { cost 1; } session { decode[0] 1; }",
        "pool p { } stage link : fifo; stage transfer : fifo; "
        "session { hold p (1) { transfer 1 from p to p (1); } }",
    ],
)
def test_a_form_without_one_stage_is_refused(text: str) -> None:
    assert codes(text) == ["E210"]


def test_transfer_is_a_run_a_load_and_a_release() -> None:
    stages = "stage link : fifo; stage wire[2] : ps(1); share maxmin; stage mesh : ps(2);"
    text = f"""
      {DECLARATIONS} {stages}
      session {{
        hold p (4) {{ hold q (5) {{
          transfer (3) from p to q (2);
          transfer on wire[1], mesh 3 from p to q (1);
        }} }}
      }}
    """
    outer = program(text).session[0]
    assert isinstance(outer, Hold) and isinstance(outer.body[0], Hold)
    assert outer.body[0].body == (
        Run((StageRef("link"),), THREE, id=2),
        Load(PoolRef("q"), TWO, id=3),
        Release(PoolRef("p"), id=4),
        Run((StageRef("wire", ONE), StageRef("mesh")), THREE, id=5),
        Load(PoolRef("q"), ONE, id=6),
        Release(PoolRef("p"), id=7),
    )


# --- admission bindings (R-A-070) ---------------------------------------------------------------------------


def test_bindings_stand_for_their_expressions_in_the_header_and_the_clauses() -> None:
    text = """
      hold p (n) reserve (m) reuse (n) at admission (n = free(q), m = n + 1) { } cache (m) lease p (n)
    """
    (hold,) = session(text)
    free = PoolRead("free", PoolRef("q"))
    assert hold == Hold(
        (HoldUnit(PoolRef("p"), free, Binary("+", free, ONE)),),
        (),
        reuse=free,
        cache=Binary("+", free, ONE),
        lease=Lease(0, free),
        id=0,
    )


def test_a_binding_that_the_body_reads_is_set_at_its_top() -> None:
    (hold,) = session("hold p (n) at admission (n = new + 1, m = 2, k = n * m) { observe v = k + n; }")
    plus = Binary("+", Attribute("new"), ONE)
    assert isinstance(hold, Hold)
    assert hold.units == (HoldUnit(PoolRef("p"), plus),)
    assert hold.body == (
        Set("n", plus, id=1),
        Set("k", Binary("*", plus, TWO), id=2),
        Observe("v", Binary("+", Attribute("k"), Attribute("n")), id=3),
    )


def test_an_inner_hold_may_bind_the_same_name() -> None:
    text = """
      hold p (x) at admission (x = 1) {
        hold q (x) at admission (x = 2) { observe v = x; }
        observe w = x;
      }
    """
    (outer,) = session(text)
    assert isinstance(outer, Hold)
    set_outer, inner, observe_outer = outer.body
    assert isinstance(inner, Hold) and isinstance(set_outer, Set) and isinstance(observe_outer, Observe)
    set_inner, observe_inner = inner.body
    assert isinstance(set_inner, Set) and isinstance(observe_inner, Observe)
    assert observe_inner.value == Attribute(set_inner.attribute)
    assert observe_outer.value == Attribute(set_outer.attribute)
    assert set_inner.attribute != set_outer.attribute


def test_the_body_of_a_def_sees_the_bindings_around_its_use() -> None:
    text = "def more(a) = a + n; pool p { } session { hold p (more(1)) at admission (n = 2) { } }"
    hold = program(text).session[0]
    assert isinstance(hold, Hold) and hold.units[0].units == Binary("+", ONE, TWO)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("hold p (n) at admission (n = now) { observe v = n; }", "E211", "n"),
        ("hold p (n) at admission (n = used(q)) { observe v = n; }", "E211", "n"),
        ("hold p (n) at admission (n = cached) { observe v = n; }", "E211", "n"),
        ("hold p (n) at admission (n = m, m = 1) { }", "E201", "m"),
        ("hold p (m) at admission (n = computed, m = n + 1) { observe v = m; }", "E211", "m"),
        ("hold p (n) at admission (n = ~det(1)) { }", "E212", "~det(1)"),
        ("hold p (n) at admission (n = 1) { } observe v = n;", "E201", "n"),
        ("hold fam[n] (1) at admission (n = 1) { }", "E201", "n"),
        ("set n = 3; hold p (n) at admission (n = 1) { observe v = n; }", "E213", "n"),
        ("hold p (1) at admission (new = 1) { observe v = new; }", "E213", "new"),
    ],
)
def test_what_a_binding_cannot_be(text: str, code: str, place: str) -> None:
    wrong = errors(f"{DECLARATIONS} session {{ {text} }}")[0]
    assert (wrong.code, pointed(wrong)) == (code, place)


def test_a_binding_that_the_body_does_not_read_may_hide_anything() -> None:
    assert codes("let n = 3; pool p { } session { hold p (n) at admission (n = 1) { } }") == []
    assert codes("pool p { } session { set n = 3; hold p (n) at admission (n = 1) { } }") == []


# --- server and request (R-A-099) ---------------------------------------------------------------------------


def test_request_stands_for_the_statements_of_the_server() -> None:
    text = """
      stage work : fifo;
      server { observe got = job; run work (job); }
      workload { turn { set job = turn_no; } session { turn; request; end; } }
    """
    assert program(text).session == (
        Turn(id=1),
        Observe("got", Attribute("job"), id=2),
        Run((StageRef("work"),), Attribute("job"), id=3),
        End(id=4),
    )


@pytest.mark.parametrize(
    "text",
    [
        "server { }",
        "server { } session { request; }",
        "server { } workload { session { } }",
        "workload { session { } }",
        "session { request; }",
        "server { end; } workload { session { request; } }",
        "server { turn; } workload { session { request; } }",
        "server { request; } workload { session { request; } }",
        "def f() { end; } server { f(); } workload { session { request; } }",
    ],
)
def test_a_server_and_its_session_belong_together(text: str) -> None:
    assert "E306" in codes(text)
