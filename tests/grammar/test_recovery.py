"""Several mistakes in one look, each told once and where it is."""

from __future__ import annotations

import pytest

from tests.grammar.texts import errors, in_session, link, pointed


def found(text: str) -> list[tuple[str, str]]:
    """Code and place of every error."""
    return [(wrong.code, wrong.place.removeprefix("test.sq:")) for wrong in errors(text)]


def test_every_unreadable_statement_is_reported() -> None:
    text = """
session {
  set x = ;
  run think (1;
  observe y = 3 4;
  hold (2) { }
  set z = 1;
}
pool p { cap; }
"""
    assert found(text) == [
        ("E110", "3:11"),
        ("E110", "4:15"),
        ("E110", "5:17"),
        ("E110", "6:8"),
        ("E110", "9:13"),
    ]


def test_mistakes_of_reading_and_of_meaning_are_reported_together() -> None:
    text = "session {\n  set = 1;\n  observe v = ghost;\n  run nowhere (1);\n}\nlet n = 0 / 0;\n"
    assert found(text) == [("E110", "2:7"), ("E201", "3:15"), ("E209", "4:7"), ("E207", "6:9")]


def test_names_in_unreadable_parts_are_not_called_unknown() -> None:
    text = "let rate = = 3;\npool kv { cap 3 }\nsession { set n == 2; observe v = rate + n; hold kv (1) { } }"
    codes = [code for code, _ in found(text)]
    assert codes == ["E110", "E112", "E110"]


def test_nothing_is_said_about_what_is_missing_when_something_could_not_be_read() -> None:
    assert [code for code, _ in found("stage s : step { cots 1; }")] == ["E111"]
    assert [
        code for code, _ in found("server { run s 1; } workload { session { requst; } } stage s : fifo;")
    ] == [
        "E110",
        "E111",
    ]


def test_a_forgotten_semicolon_is_put_in() -> None:
    text = "session {\n  set x = 1\n  set y = x +\n    1\n  observe z = y\n}\nlet a = 2\nlet b = a;"
    wrong = errors(text)
    assert [(w.code, w.message) for w in wrong] == [
        ("E112", "`;` is missing behind `1`"),
        ("E112", "`;` is missing behind `1`"),
        ("E112", "`;` is missing behind `y`"),
        ("E112", "`;` is missing behind `2`"),
    ]
    assert [w.place for w in wrong] == ["test.sq:2:12", "test.sq:4:6", "test.sq:5:16", "test.sq:7:10"]


def test_a_block_is_skipped_with_the_statement_that_it_belongs_to() -> None:
    text = (
        "session {\n  hold p 1 {\n    observe x = ghost;\n  } cache (2);\n  observe y = gone;\n}\npool p { }"
    )
    assert found(text) == [("E110", "2:10"), ("E201", "5:15")]


def test_an_open_block_is_located_where_it_opens() -> None:
    assert found("session {\n  loop {\n    end;\n") == [("E113", "2:8")]
    assert found("session { loop { end; }\n") == [("E113", "1:9")]


def test_the_indentation_tells_which_block_is_open() -> None:
    text = "session {\n  branch (1) {\n    end;\n  loop { end; }\n}\nrun { horizon 1; }\n"
    (wrong,) = errors(text)
    assert (wrong.code, wrong.place) == ("E113", "test.sq:2:14")
    assert wrong.message.endswith("its `}` is missing before line 5")


def test_a_stray_brace_does_not_end_the_reading() -> None:
    assert found("session { end; } }\nlet a = ghost;") == [("E110", "1:18"), ("E201", "2:9")]


def test_what_a_brace_too_many_puts_in_the_wrong_place_is_told_once() -> None:
    assert found("session {\n  turn; }\n  end;\n  turn;\n}\nlet a = ghost;\n") == [
        ("E111", "3:3"),
        ("E201", "6:9"),
    ]
    assert found("workload {\n  init }\n    set a = 1;\n    set b = 2;\n  }\n}\n") == [
        ("E110", "2:8"),
        ("E111", "3:5"),
    ]


def test_a_role_is_not_missed_where_a_stage_could_not_be_read() -> None:
    assert found("stage engine : stp { cost 1; }\nsession { prefill 3; }\n") == [("E111", "1:16")]


def test_a_text_that_is_no_program_is_given_up() -> None:
    words = " ".join(["lorem ipsum dolor sit amet ;"] * 400)
    assert 0 < len(errors(words)) <= 100
    assert 0 < len(errors("session { " + "set x = ghost; " * 5000 + "}")) <= 100


def test_one_mistake_in_a_def_is_told_once_however_often_it_is_used() -> None:
    text = "def f(x) = ghost + x; session { observe a = f(1); observe b = f(2); observe c = f(3); }"
    assert [pointed(wrong) for wrong in errors(text)] == ["ghost"]


BRANCHES = "a choice is written `branch (…) { … } else { … }`"
ITEM = "`{}` begins an item of a program; items stand outside of all braces"
ELSE = "`else { … }` follows the block of a `branch`"
UNITS = "write the number alone, in the unit of what it stands for; times are in seconds"
LOOPS = "`loop { … }` repeats until the session ends; leave it with `branch (…) { end; }`"


@pytest.mark.parametrize(
    ("statement", "message", "help_"),
    [
        ("sett x = 1;", "`sett` does not begin a statement", "did you mean `set`?"),
        ("x = 3;", "`x` does not begin a statement", "an assignment is written `set x = …`"),
        ("if (1) { end; }", "`if` does not begin a statement", BRANCHES),
        ("while (1) { end; }", "`while` does not begin a statement", LOOPS),
        ("return;", "`return` does not begin a statement", "a session ends with `end;`"),
        ("loop { end; };", "a `;` does not follow this block", "remove it; there is no empty statement"),
        ("; end;", "nothing stands before this `;`", "remove it; there is no empty statement"),
        ("branch (1) { } else branch (0) { }", "expected `{`, found `branch`", "write `else { branch … }`"),
        ("pool p { }", "`pool` does not begin a statement", ITEM.format("pool")),
        ("else { end; }", "`else` does not begin a statement", ELSE),
        ("observe v = 1 and 2;", "expected `;`, found `and`", "write `a && b`"),
        ("observe v = not 2;", "expected `(` or `;`, found `2`", "write `!a`"),
        ("observe v = 2 ** 3;", "expected an expression, found `*`", "a power is written `a ^ b`"),
        ("observe v = 0x1F;", "expected `;`, found `x1F`", "numbers are decimal"),
        ("observe v = 1 < 2 < 3;", "comparisons do not chain", "write `a < b && b < c`"),
        ("observe v = (1 = 2);", "`=` assigns and cannot stand in an expression", "comparison is `==`"),
        ("observe v = 1 +;", "expected an expression, found `;`", None),
        ("run think (1;", "expected `)`, found `;`", None),
        ("run;", "expected a name, found `;`", None),
        ("observe v = uniform(1, 2);", "unknown function `uniform`", "write `~uniform(1, 2)` to draw"),
        ("observe v = h2(2);", "unknown function `h2`", "a draw is written `~h2(…)`, with 2 arguments"),
        ("observe v = det(1, 2);", "unknown function `det`", "a draw is written `~det(…)`, with 1 argument"),
        ("observe v = ~exp(1, 2);", "`~exp` takes 1 argument, not 2", None),
        ("observe v = 40ms;", "`40ms`: a number has no unit", "times are in seconds: write `0.04`"),
        ("observe v = 1.5min;", "`1.5min`: a number has no unit", "times are in seconds: write `90`"),
        ("observe v = 250us;", "`250us`: a number has no unit", "times are in seconds: write `0.00025`"),
        ("observe v = 16k;", "`16k`: a number has no unit", "write `16000`"),
        ("observe v = 8K;", "`8K`: a number has no unit", "write `8192`"),
        ("observe v = 80GiB;", "`80GiB`: a number has no unit", "write `85899345920`"),
        ("observe v = 25GB;", "`25GB`: a number has no unit", "write `25000000000`"),
        ("observe v = 2e3TB;", "`2e3TB`: a number has no unit", "write `2e+15`"),
        ("observe v = 3tokens;", "`3tokens`: a number has no unit", UNITS),
        ("observe v = 3 tokens;", "expected `;`, found `tokens`", None),
        ("observe v = now(1);", "unknown function `now`", "`now` is a value and takes no arguments"),
    ],
)  # fmt: skip
def test_messages_say_what_would_be_right(statement: str, message: str, help_: str | None) -> None:
    (wrong,) = errors(in_session(statement, "stage think : delay;"))
    assert (wrong.message, wrong.help) == (message, help_)


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("pol p { }", "did you mean `pool`?"),
        ("observe v = 1;", "`observe` begins a statement; statements stand in `session { … }`"),
        ("pool p { capp 3; }", "did you mean `cap`?"),
        ("stage s : step { bugdet 3; cost 1; }", "did you mean `budget`?"),
        ("stage s : dely;", "did you mean `delay`?"),
        ("workload { arive batch(1); }", "did you mean `arrive`?"),
        ("workload { arrive bath(1); }", "did you mean `batch`?"),
        ("run { horizn 3; }", "did you mean `horizon`?"),
        ("share maxmim;", "did you mean `maxmin`?"),
        (
            "pool p { size 3; }",
            "one begins with `cap`, `block`, `evict`, `preempt`, `queue`, `admit` or `spill`",
        ),
    ],
)
def test_a_misspelt_word_gets_the_nearest_one(text: str, help_: str) -> None:
    (wrong,) = errors(text)
    assert (wrong.code, wrong.help) == ("E111", help_)


def test_a_unit_of_a_setting_is_told_with_what_is_meant() -> None:
    (wrong,) = errors("run { horizon 5m; }")
    assert (pointed(wrong), wrong.help) == ("5m", "times are in seconds: write `300`")
    (wrong,) = errors("slo ttft p99 < 1s;")
    assert (pointed(wrong), wrong.help) == ("1s", "times are in seconds: write `1`")


def test_a_misspelt_item_behind_a_family_is_told_once() -> None:
    """A `;` would fit behind the family, and putting it in does not help."""
    found = errors("stage engine[2] : vllm {\n  cost 1;\n}\nworklaod {\n}\n")
    assert [pointed(wrong) for wrong in found] == ["worklaod"]


def test_warnings_do_not_keep_a_program_from_compiling() -> None:
    linked = link(
        in_session("hold p (1) reuse (1) { run d (1); } grow p (1);", "pool p { cap 2; } stage d : delay;")
    )
    assert [warning.code for warning in linked.warnings] == ["W602", "W606"]


def test_strings_in_other_quotes_are_told_once() -> None:
    (wrong,) = errors("use 'b c.sq';\nlet a = 1;\nsession { observe v = a; }\n")
    assert (wrong.code, pointed(wrong), wrong.help) == ("E101", "'b c.sq'", 'strings stand between `"`')


def test_a_file_whose_name_cannot_be_read_is_not_looked_for() -> None:
    assert found('use "b.sq;\nlet a = 1;\n') == [("E103", "1:5")]
