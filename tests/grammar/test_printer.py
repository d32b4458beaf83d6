"""The usual form of programs, case by case: what somebody wrote, and what it becomes."""

from __future__ import annotations

from time import process_time

import pytest

from serq.errors import CompileError
from serq.grammar import format_layout, tables
from tests.grammar.formatted import becomes, formatted, stays
from tests.shared import ROOT

# --- words and spaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a+b*c^2/-d", "a + b * c ^ 2 / -d"),
        ("- -x", "- -x"),
        ("-(-x)- -1", "-(-x) - -1"),
        ("! !x", "!!x"),
        ("- !x", "-!x"),
        ("2.*.5", "2. * .5"),
        ("1_000/1E-3", "1_000 / 1E-3"),
        ("a<=b&&c!=d||!e", "a <= b && c != d || !e"),
        ("a?b:c?d:e", "a ? b : c ? d : e"),
        ("( ( a ) )", "((a))"),
        ("f ( a,b [ 1 ] ,( c ) )", "f(a, b[1], (c))"),
        ("f( )", "f()"),
        ("~ uniform ( 0,8 )", "~uniform(0, 8)"),
        ("max j in n(a*j)", "max j in n (a * j)"),
        ("sum j in(n+1)(j)", "sum j in (n + 1) (j)"),
    ],
)
def test_spaces_in_expressions(written: str, expected: str) -> None:
    becomes(f"let x={written};", f"let x = {expected};\n")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("hold reqs(1),kv [j] (a){}", "hold reqs (1), kv[j] (a) {}"),
        ("run d(1);", "run d (1);"),
        ("run up[i],down[j](w);", "run up[i], down[j] (w);"),
        ("run gpu prefill(w)growing kv;", "run gpu prefill (w) growing kv;"),
        ("prefill(a)+b;", "prefill (a) + b;"),
        ("decode -x;", "decode -x;"),
        ("tool [1] 2 ;", "tool[1] 2;"),
        ("transfer on wire w from a to b [1](n);", "transfer on wire w from a to b[1] (n);"),
        ("choose j in 2by(j);", "choose j in 2 by (j);"),
        ("branch with(0.5){end;}", "branch with (0.5) { end; }"),
        ("take ( kv,2 ) ;", "take(kv, 2);"),
        ("grow kv(1);", "grow kv (1);"),
    ],
)
def test_spaces_in_statements(written: str, expected: str) -> None:
    becomes(f"session {{\n{written}\n}}", f"session {{\n  {expected}\n}}\n")


def test_items() -> None:
    becomes(
        """
        def f ( a,b )=a;def g(){end;}
        use"b.sq";
        stage s[ 2 ]:fifo ( 2 );stage t:fifo;stage u :ps(1);
        share   maxmin ;
        workload { arrive trace(2) ; arrive  poisson ( 2 ); trace"t.csv"ordered ; }
        """,
        """
        def f(a, b) = a;
        def g() { end; }
        use "b.sq";
        stage s[2] : fifo(2);
        stage t : fifo;
        stage u : ps(1);
        share maxmin;
        workload { arrive trace (2); arrive poisson(2); trace "t.csv" ordered; }
        """,
    )


def test_optional_semicolons_go() -> None:
    becomes(
        """
        stage gpu : step { cost 1; };
        session {
          hold p (1) { end; };
          hold p (1) { end; } cache (1) lease p (2) /* kept */ ;
        }
        """,
        """
        stage gpu : step { cost 1; }
        session {
          hold p (1) { end; }
          hold p (1) { end; } cache (1) lease p (2)  /* kept */
        }
        """,
    )


# --- blocks -------------------------------------------------------------------------------------------------


def test_a_statement_a_line() -> None:
    becomes(
        """
        session{turn;branch(x>0){set y=1;end;}else{end;}
        hold p(1){branch(x){end;}}}
        """,
        """
        session {
          turn;
          branch (x > 0) {
            set y = 1;
            end;
          } else {
            end;
          }
          hold p (1) {
            branch (x) { end; }
          }
        }
        """,
    )


def test_a_block_of_one_statement_stays_as_it_was_written() -> None:
    stays(
        """
session {
  branch (x) { end; } else { run d (1); }
  branch (x) {
    end;
  } else {
    run d (1);
  }
  loop {}
}
"""
    )


def test_options_share_lines_as_they_were_written() -> None:
    becomes(
        """
        pool kv{cap 4096;block 16;}
        stage gpu:step{
          budget 4;   chunk 2;
          memory kv;

          cost 1; serve decode first;
        }
        workload { arrive batch(1); init { set x = 1; set y = 2; } }
        """,
        """
        pool kv { cap 4096; block 16; }
        stage gpu : step {
          budget 4; chunk 2;
          memory kv;

          cost 1; serve decode first;
        }
        workload {
          arrive batch(1);
          init {
            set x = 1;
            set y = 2;
          }
        }
        """,
    )


def test_options_too_long_for_a_line_have_a_line_each() -> None:
    long = "a_name_of_forty_characters_without_sense"
    becomes(
        f"pool kv {{ cap {long}; block 16; queue by ({long}); }}\n",
        f"""
        pool kv {{
          cap {long};
          block 16;
          queue by ({long});
        }}
        """,
    )


def test_blank_lines() -> None:
    becomes(
        "\n\n\nlet a = 1;\nlet b = 2;\n\n\n\n// c\n\n\nsession {\n\n\n  turn;\n\n\n  end;\n\n}\n\n\n",
        """
        let a = 1;
        let b = 2;

        // c

        session {
          turn;

          end;
        }
        """,
    )


# --- long lines ---------------------------------------------------------------------------------------------


def test_conditions_break_an_arm_a_line() -> None:
    becomes(
        """
        def waiting_class(urgent, prompt, elapsed) =
          urgent ? 0 : prompt > short_tokens && max_wait > 0 && elapsed >= max_wait ? 1
          : prompt <= short_tokens ? 2 : 3;
        """,
        """
        def waiting_class(urgent, prompt, elapsed) =
          urgent ? 0
          : prompt > short_tokens && max_wait > 0 && elapsed >= max_wait ? 1
          : prompt <= short_tokens ? 2
          : 3;
        """,
    )


def test_operators_of_lowest_rank_break_first() -> None:
    becomes(
        """
        let x = (first_number + second_number) * third_number - fourth_number / fifth_number
          + sixth_number * seventh_number;
        """,
        """
        let x =
          (first_number + second_number) * third_number
          - fourth_number / fifth_number
          + sixth_number * seventh_number;
        """,
    )


def test_brackets_break_where_an_operator_cannot() -> None:
    becomes(
        """
        session {
          choose j in replicas by (64 * in_system(j) - reusable(npu[j], chat),
          queue(npu[j]) + busy(npu[j]), j);
          run think (serial == 1 ? 0.001 : serial == 2 ? 0.002 : serial == 3 ? 0.003
          : floor(~exp(0.004 + serial / 10) * 1000) / 1000);
        }
        """,
        """
        session {
          choose j in replicas by (
            64 * in_system(j) - reusable(npu[j], chat),
            queue(npu[j]) + busy(npu[j]),
            j
          );
          run think (
            serial == 1 ? 0.001
            : serial == 2 ? 0.002
            : serial == 3 ? 0.003
            : floor(~exp(0.004 + serial / 10) * 1000) / 1000
          );
        }
        """,
    )


def test_calls_in_calls_break_together() -> None:
    numbers = ", ".join(str(number) for number in range(1000, 1020))
    becomes(
        f"let x = floor(abs(f({numbers})));",
        """
        let x = floor(abs(f(
          1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015,
          1016, 1017, 1018, 1019
        )));
        """,
    )


def test_clauses_of_a_long_header() -> None:
    becomes(
        """
        session {
          hold reqs (1), kv (prompt + out) reserve (prompt + 4096) reuse (cached * 2)
          at admission (k = a + 1) { end; }
        }
        """,
        """
        session {
          hold reqs (1),
              kv (prompt + out) reserve (prompt + 4096)
              reuse (cached * 2)
              at admission (k = a + 1) { end; }
        }
        """,
    )


# --- whole texts, refusals, time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", ""),
        (" \r\n\t\n", ""),
        ("// only", "// only\n"),
        ("\n\n/* a */\n\n\n// b\n\n", "/* a */\n\n// b\n"),
        ("let a = 1;\r\n\tlet b = 2; // c\r\n", "let a = 1;\nlet b = 2;  // c\n"),
        ("let größe = 名; // ±∞", "let größe = 名;  // ±∞\n"),
        ('use "a//b";', 'use "a//b";\n'),
    ],
)
def test_whole_texts(written: str, expected: str) -> None:
    assert formatted(written) == expected


def test_the_example_of_the_docs() -> None:
    page = (ROOT / "docs" / "formatting.md").read_text("utf-8")
    example = page.split("```\n")[1]
    assert formatted(" ".join(example.split())) == example


def test_a_text_with_mistakes_is_refused() -> None:
    with pytest.raises(CompileError) as refused:
        formatted("let a = ;\nsession { turn }\n")
    assert [diagnostic.place[:7] for diagnostic in refused.value.diagnostics] == ["x.sq:1:", "x.sq:2:"]


def test_names_need_not_be_known() -> None:
    stays("session { run nowhere (unknown); }\n")


def test_texts_as_deep_as_may_be() -> None:
    depth = 43  # `loop { end; }` still fits
    lines = formatted("session {" + "loop {" * depth + "end;" + "}" * depth + "}").splitlines()
    assert lines[depth] == "  " * depth + "loop { end; }"
    assert formatted(f"let x = {'(' * depth}1{')' * depth};") == f"let x = {'(' * depth}1{')' * depth};\n"


def test_rules_named_by_the_style_exist() -> None:
    rules = {rule.alias or rule.origin.name for rule in tables.load().rules}
    assert rules >= format_layout.CALLS | {format_layout.STATEMENTS}


@pytest.mark.bench
def test_two_thousand_lines_in_two_seconds() -> None:
    text = "session {\n" + "  run gpu prefill (prompt + 1) growing kv;  // comment\n" * 2000 + "}\n"
    begin = process_time()
    formatted(text)
    assert process_time() - begin < 2
