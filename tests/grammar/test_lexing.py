"""Tokens: white space, comments, names, numbers (R-A-001 to R-A-004)."""

from __future__ import annotations

from math import inf

import pytest

from serq.ir.nodes import Number, Observe
from tests.grammar.texts import codes, errors, pointed, program


def value(text: str) -> float:
    (statement,) = program(f"session {{ observe x = {text}; }}").session
    assert isinstance(statement, Observe) and isinstance(statement.value, Number)
    return statement.value.value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12.0),
        (".5", 0.5),
        ("2.", 2.0),
        ("1_000", 1000.0),
        ("1__0", 10.0),
        ("1_", 1.0),
        ("1_.5", 1.5),
        ("1._5", 1.5),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("1e+2", 100.0),
        ("1e999", inf),
    ],
)
def test_numbers(text: str, number: float) -> None:
    assert value(text) == number


@pytest.mark.parametrize("text", ["1.2.3", "1..2", "1_.0_.1", "3...", "0.1.2e5"])
def test_two_points_in_one_run_of_digits_are_no_number(text: str) -> None:
    (wrong,) = errors(f"let a = {text};")
    assert wrong.code == "E102"
    assert pointed(wrong).startswith(text[:3])


def test_an_exponent_has_no_underscores_so_a_name_follows_it() -> None:
    # `1e1_0` is `1e1` and then the name `_0`; `1e` is `1` and then the name `e`
    (wrong,) = errors("let a = 1e1_0;")
    assert (wrong.code, pointed(wrong)) == ("E110", "_0")
    (wrong,) = errors("let a = 1e;")
    assert (wrong.code, pointed(wrong)) == ("E110", "e")


def test_there_is_no_hexadecimal() -> None:
    (wrong,) = errors("let a = 0x10;")
    assert pointed(wrong) == "x10"


def test_letters_of_all_scripts_are_letters() -> None:
    assert value("0") == 0.0
    linked = program("let größe = 3;\nlet 长度_2 = größe;\nsession { observe λ = 长度_2; }")
    assert linked.session == (Observe("λ", Number(3.0), id=0),)


@pytest.mark.parametrize("name", ["a-b", "a.b", "'a'", "$a"])
def test_names_have_no_other_characters(name: str) -> None:
    assert codes(f"let {name} = 1;")


def test_white_space_and_comments_only_separate() -> None:
    spaced = "let a/* one */=/* two\nlines */1 // rest\n;\tsession{observe x=a/**/;}"
    assert program(spaced) == program("let a = 1; session { observe x = a; }")


def test_a_block_comment_ends_at_the_first_end() -> None:
    assert codes("/* /* */ let a = 1; */")
    assert codes("/* /* */ let a = 1;") == []


def test_an_unclosed_comment_is_located_where_it_opens() -> None:
    text = "let a = 1;\nlet b = 2; /* and then\n// */".replace("*/", "")
    (wrong,) = errors(text)
    assert (wrong.code, wrong.place) == ("E104", "test.sq:2:12")


@pytest.mark.parametrize("mark", ["# note", "-- note"])
def test_other_comment_marks_are_none(mark: str) -> None:
    assert codes(f"let a = 1; {mark}\nlet b = 2;")


def test_lines_may_end_as_on_any_system() -> None:
    assert program("let a = 1;\r\nsession {\r observe x = a; }\n") == program("session { observe x = 1; }")


@pytest.mark.parametrize("word", ["admit", "enter", "keep", "fit", "where"])
def test_retired_words_name_no_value(word: str) -> None:
    for text in (
        f"let {word} = 1;",
        f"def {word}(x) = x;",
        f"def f({word}) = {word};",
        f"session {{ set {word} = 1; }}",
        f"session {{ choose {word} in 2 by (1); }}",
        f"session {{ observe x = max {word} in 2 ({word}); }}",
        f"pool p {{ }} session {{ hold p (1) at admission ({word} = 1) {{ }} }}",
    ):
        assert codes(text) == ["E106"], text
    assert codes(f"session {{ observe x = {word}; }}") == ["E201"]


@pytest.mark.parametrize("word", ["admit", "enter", "keep", "fit", "where"])
def test_retired_words_may_name_pools_stages_and_series(word: str) -> None:
    # as the reference implementation does, whatever its pages say
    declarations = f"pool {word} {{ }} stage {word} : delay;"
    assert (
        codes(f"{declarations} session {{ hold {word} (1) {{ run {word} (1); }} observe {word} = 1; }}") == []
    )


def test_admit_via_stays_an_option() -> None:
    text = "pool p { admit via e; }\nstage e : step { cost 1; }"
    assert program(text).pools[0].admit_via == "e"


WORDS = [
    "let",
    "def",
    "use",
    "pool",
    "stage",
    "workload",
    "session",
    "server",
    "share",
    "run",
    "maxmin",
    "bottleneck",
    "horizon",
    "warmup",
    "seed",
    "arrivals",
    "cap",
    "block",
    "evict",
    "lru",
    "by",
    "preempt",
    "none",
    "lifo",
    "queue",
    "fifo",
    "via",
    "spill",
    "when",
    "ps",
    "delay",
    "step",
    "budget",
    "chunk",
    "cost",
    "memory",
    "serve",
    "admission",
    "first",
    "exclusive",
    "only",
    "arrive",
    "trace",
    "ordered",
    "init",
    "turn",
    "hidden",
    "poisson",
    "renewal",
    "closed",
    "batch",
    "end",
    "request",
    "set",
    "observe",
    "hold",
    "reserve",
    "reuse",
    "at",
    "cache",
    "lease",
    "grow",
    "load",
    "drop",
    "release",
    "prefill",
    "decode",
    "tool",
    "transfer",
    "on",
    "from",
    "to",
    "growing",
    "branch",
    "with",
    "else",
    "loop",
    "choose",
    "in",
    "max",
    "min",
    "sum",
]


@pytest.mark.parametrize("word", [word for word in WORDS if word != "admission"])
def test_any_other_word_can_be_a_name(word: str) -> None:
    # as an attribute, an observation, a pool, a stage, a member, in expressions with operators around it
    text = f"""
      pool {word}[2] {{ cap 9; }}
      stage {word} : fifo;
      workload {{ arrive batch(1); hidden {word}; }}
      session {{
        set {word} = 1;
        observe {word} = {word} + {word} * (-{word}) ^ {word};
        choose j in {word} by ({word}, used({word}[{word}]));
        hold {word}[0] (1) {{ run {word} ({word}); release {word}[0]; }}
        branch ({word} == 1) {{ end; }}
      }}
    """
    linked = program(text)
    assert linked.pools[0].name == linked.stages[0].name == word
    assert program(f"let {word} = 4; session {{ observe x = {word}; }}").session[0] == Observe(
        "x", Number(4.0), id=0
    )
