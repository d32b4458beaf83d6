"""Where statements may stand, and what their amounts may be."""

from __future__ import annotations

import pytest

from tests.grammar.texts import codes, errors, link, pointed

DECLARATIONS = """
pool p { cap 9; } pool q { cap 9; } pool fam[2] { cap 9; } pool one[1] { }
stage gpu : step { cost 1; } stage think : delay; stage up : ps(1); stage down[2] : ps(2);
stage odd : ps(present);
"""


def text(session: str, share: str = "") -> str:
    return f"{DECLARATIONS} {share} session {{ {session} }}"


@pytest.mark.parametrize(
    "session",
    [
        "hold p (0) { }",
        "hold p (inf) { }",
        "hold p (serial - 5) { run think (serial / serial); }",
        "hold p (1) reuse (-1) { } cache (-3) lease p (-1)",
        "hold fam[0] (1), fam[1] (1), p (1) { }",
        "hold fam[serial] (1), fam[serial + 1] (1) { }",
        "hold one (1) { } hold one[0] (1) { }",
        "hold p (1) { load p (1); hold q (1) { load p (1); release p; } }",
        "set j = 1; hold fam[j] (1) { release fam[j]; load fam[j] (1); grow fam[0] (1); }",
        "hold p (1) { } lease p (5) release p;",
        "release p; hold p (1) { } lease p (5)",
        "drop p; drop fam[serial];",
        "run think (1); run gpu prefill (1); run gpu decode (1); run up (1);",
        "run gpu prefill (1) growing p;",
        "branch (1) { } branch (0) { } else { } branch (serial) { } branch (1 / 2) { }",
        "choose j in 3 by (1); choose j in -1 by (1); choose j in serial by (1);",
        "loop { end; } loop { run think (1); } loop { branch (serial) { end; } }",
        "loop { hold p (1) { } } loop { run think (serial); }",
        "hold p (1) { loop { grow p (1); } }",
    ],
)
def test_what_may_be(session: str) -> None:
    assert codes(text(session)) == []


@pytest.mark.parametrize(
    ("session", "code", "place"),
    [
        ("hold p (-3) { }", "E412", "-3"),
        ("hold p (0 / 0) { }", "E412", "0 / 0"),
        ("hold p (1) reserve (-1) { }", "E412", "-1"),
        ("hold p (1) { grow p (-1); }", "E412", "-1"),
        ("hold p (1) { load p (-1); }", "E412", "-1"),
        ("run think (-1);", "E412", "-1"),
        ("run gpu decode (1 - 2);", "E412", "1 - 2"),
        ("hold p (1), p (2) { }", "E413", "p (2)"),
        ("hold p (1), p[0] (2) { }", "E413", "p[0] (2)"),
        ("hold fam[1] (1), fam[2 - 1] (2) { }", "E413", "fam[2 - 1] (2)"),
        ("hold fam[serial] (1), fam[serial] (2) { }", "E413", "fam[serial] (2)"),
        ("hold p (1) { } lease q (2)", "E414", "q"),
        ("hold p (1) { } lease p[0] (2)", "E414", "p[0]"),
        ("load p (1);", "E415", "load p (1);"),
        ("hold p (1) { } load p (1);", "E415", "load p (1);"),
        ("hold p (1) { load p[0] (1); }", "E415", "load p[0] (1);"),
        ("release p;", "E416", "release p;"),
        ("hold p (1) { } release p;", "E416", "release p;"),
        ("hold q (1) { release p; } hold p (1) { }", "E416", "release p;"),
        ("hold one (1) { release one[0]; }", "E416", "release one[0];"),
        ("run gpu (1);", "E417", "run gpu (1);"),
        ("run think prefill (1);", "E417", "run think prefill (1);"),
        ("hold p (1) { run think (1) growing p; }", "E417", "run think (1) growing p;"),
        ("branch (0.5) { }", "E419", "0.5"),
        ("branch (2) { }", "E419", "2"),
        ("branch (inf) { }", "E419", "inf"),
        ("choose j in 2.5 by (1);", "E420", "2.5"),
        ("choose j in inf by (1);", "E420", "inf"),
        ("loop { }", "E423", "loop { }"),
        (
            "loop { set a = a + 1; turn; observe x = a; }",
            "E423",
            "loop { set a = a + 1; turn; observe x = a; }",
        ),
        ("loop { run think (0); }", "E423", "loop { run think (0); }"),
        ("loop { hold one (1) { drop p; } }", "E423", "loop { hold one (1) { drop p; } }"),
        ("loop { branch (1) { } else { end; } }", "E423", "loop { branch (1) { } else { end; } }"),
        ("loop { run think (1); loop { } }", "E423", "loop { }"),
    ],
)
def test_what_may_not_be(session: str, code: str, place: str) -> None:
    (wrong,) = errors(text(session))
    assert (wrong.code, pointed(wrong)) == (code, place)


@pytest.mark.parametrize("share", ["share maxmin;", "share bottleneck;"])
def test_flows_share_their_stages(share: str) -> None:
    assert codes(text("run up, down[1] (1); run up (1);", share)) == []


@pytest.mark.parametrize(
    ("session", "share", "place"),
    [
        ("run up, down[0] (1);", "", "run up, down[0] (1);"),
        ("run down[0], down[1] (1);", "share maxmin;", "down[1]"),
        ("run up, odd (1);", "share maxmin;", "odd"),
        ("run up, think (1);", "share maxmin;", "think"),
        ("run up (1);", "share maxmin;", None),
    ],
)
def test_flows_that_cannot_share(session: str, share: str, place: str | None) -> None:
    (wrong,) = errors(text(session, share))
    assert wrong.code == "E418"
    assert place is None or pointed(wrong) == place


# --- the stale-header lint (R-A-071) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "session",
    [
        "set x = free(p); hold p (x) { }",
        "set x = 1 + used(q); hold p (1) reserve (x) { }",
        "set x = queue(think); hold p (1) reuse (x) { } cache (1)",
        "set x = free(p); hold p (1) { } cache (x)",
        "set x = now > 1 ? free(p) : 2; hold p (x) { }",
        "set x = free(p); hold p (n) at admission (n = x) { }",
        "set x = free(p); branch (serial) { hold p (x) { } }",
        "loop { set x = free(p); hold p (x) { } end; }",
        "hold q (1) { set x = free(p); hold p (x) { } }",
        "set x = free(p); branch (serial) { set x = 1; } hold p (x) { }",
        "set x = free(p); hold q (1) { set x = 1; } hold p (x) { }",
        "set x = free(p); choose x in 3 by (x); hold p (x) { }",
        "set x = est_wait(think); hold p (x) { }",
    ],
)
def test_a_header_does_not_read_what_was_true_before_waiting(session: str) -> None:
    assert codes(text(session)) == ["E421"]


@pytest.mark.parametrize(
    "session",
    [
        "set y = free(p); set x = y; hold p (x) { }",
        "choose x in 3 by (used(p)); hold p (x) { }",
        "set x = used(p); hold fam[x] (1) { }",
        "set x = free(p); hold p (1) { } lease p (x)",
        "set x = cached + now; hold p (x) { }",
        "set x = free(p); set x = 1; hold p (x) { }",
        "hold p (1) { set x = free(p); } cache (x)",
        "hold p (1) { set x = free(p); } hold p (x) { }",
        "set x = free(p); hold q (1) { hold p (x) { } }",
        "branch (serial) { set x = free(p); } hold p (x) { }",
        "loop { hold p (x) { } set x = free(p); end; }",
        "set x = free(p); hold p (1) { grow p (x); }",
    ],
)
def test_what_the_lint_leaves_alone(session: str) -> None:
    assert codes(text(session)) == []


def test_the_size_of_a_block_is_no_live_state() -> None:
    assert codes("pool b { cap 9; block 2; } session { set x = blocksize(b); hold b (x) { } }") == []


# --- warnings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ("hold p (1) { }", []),
        ("hold p (1) reuse (1) { } cache (1)", []),
        ("hold p (1) { observe x = cached; } cache (1)", []),
        ("observe x = cached;", []),
        ("hold p (1) reuse (1) { }", [("W602", "1")]),
        ("hold p (1) { observe x = cached; observe y = cached; }", [("W602", "cached")]),
        ("hold p (1) { hold q (1) { observe x = cached; } cache (1) }", []),
        ("hold p (cached) { }", [("W602", "cached")]),
        ("run down[serial / 2] (1);", [("W603", "serial / 2")]),
        ("run down[floor(serial / 2)] (1);", []),
        ("run down[serial - 2 * floor(serial / 2)] (1);", []),
        ("run down[~uniform(0, 2)] (1);", [("W603", "~uniform(0, 2)")]),
        ("set j = serial / 2; run down[j] (1);", [("W603", "j")]),
        ("set k = serial / 2; set j = k; run down[j] (1);", [("W603", "j")]),
        ("choose j in 2 by (1); run down[j] (1);", []),
        ("choose j in 3 by (queue(down[j]));", [("W607", "j")]),
        ("choose j in 3 by (1, 2 * queue(down[j]) + 1);", [("W607", "j")]),
        ("choose j in 2 by (queue(down[j]));", []),
        ("choose j in 1 + serial by (queue(down[j]));", []),
        ("choose j in 3 by (j < 2 ? queue(down[j]) : 9);", []),
        ("choose j in 3 by (j < 2 && queue(down[j]));", []),
        ("choose j in 3 by (queue(down[min(j, 1)]));", []),
        ("observe x = exp(250);", [("W609", "exp(250)")]),
        ("observe x = exp(19) + exp(-250) + exp(serial) + ~exp(250);", []),
        ("hold p (10) { }", [("W604", "p (10)")]),
        ("hold p (1) reserve (9.5) { }", [("W604", "p (1) reserve (9.5)")]),
        ("branch (1 / 2) { }", [("W605", "1 / 2")]),
        ("branch (-1) { }", [("W605", "-1")]),
        ("grow p (1);", [("W606", "p")]),
        ("hold q (1) { run gpu prefill (1) growing p; }", [("W606", "p")]),
    ],
)
def test_what_looks_unintended(session: str, expected: list[tuple[str, str]]) -> None:
    warnings = link(text(session)).warnings
    assert [(warning.code, pointed(warning)) for warning in warnings] == expected
    assert all(warning.severity == "warning" for warning in warnings)


def test_blocks_count_for_what_fits() -> None:
    block = "pool b { cap 10; block 4; }"
    assert [w.code for w in link(f"{block} session {{ hold b (8) {{ }} }}").warnings] == []
    assert [w.code for w in link(f"{block} session {{ hold b (9) {{ }} }}").warnings] == ["W604"]
