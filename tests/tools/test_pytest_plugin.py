"""The pytest plugin: programs that expect something are tests."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

GOOD = """stage desk : fifo;
workload { arrive batch(3); }
session { run desk (2); observe done = now; }
run { horizon 10; }
expect order(done) == [2, 4, 6];
expect ended == 3;
"""
INSTALLED = any(point.name == "serq" for point in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "serq.tools.pytest_plugin")


def run(pytester: pytest.Pytester, *arguments: str, **files: str) -> pytest.RunResult:
    for name, text in files.items():
        (pytester.path / f"{name}.sq").write_text(text)
    return pytester.runpytest_inprocess(*PLUGIN, "-v", *arguments)


def test_every_expectation_is_a_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, good=GOOD)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["good.sq::expect order(done) == [[]2, 4, 6[]] PASSED*", "good.sq::expect ended == 3 PASSED*"]
    )


def test_a_failure_shows_the_line_and_what_was_measured(pytester: pytest.Pytester) -> None:
    result = run(pytester, bad=GOOD + "expect mean(done) > 5;\n")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*bad.sq:7:1: error[[]expectation-failed[]]: this does not hold: mean(done) is 4",
            " 7 | expect mean(done) > 5;",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_programs_that_expect_nothing_are_left_alone(pytester: pytest.Pytester) -> None:
    silent = GOOD.partition("expect")[0]
    result = run(pytester, silent=silent, library="def f(x) = x;", commented=silent + "// expect 0;\n")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_program_that_does_not_compile_or_run_fails(pytester: pytest.Pytester) -> None:
    stops = GOOD.replace("run desk (2)", "run desk (2 - 3 * serial)")
    result = run(pytester, wrong=GOOD.replace("order(done)", "order(don)"), stops=stops)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*is not an amount*", "*error[[]E226[]]*", "  help: did you mean `done`?"])


def test_one_expectation_can_be_chosen(pytester: pytest.Pytester) -> None:
    run(pytester, "-k", "ended", good=GOOD).assert_outcomes(passed=1, deselected=1)
