"""Arguments of Python calls that cannot be what was meant: which one, what was given, what would be right."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

import serq
from serq import arguments
from serq.errors import UsageError, WrongTypeError
from tests.shared import ROOT

QUEUE = ROOT / "examples" / "tutorial" / "1_queue.sq"
SHORT = {"horizon": 100.0, "warmup": 10.0}


def test_what_is_meant_is_taken() -> None:
    """Numbers of other libraries, whole numbers written as fractions, one text for several."""
    assert arguments.path("file", "a/b.sq") == Path("a/b.sq") == arguments.path("file", Path("a/b.sq"))
    assert arguments.number("x", numpy.float64(0.5)) == 0.5 == arguments.number("x", Fraction(1, 2))
    assert [type(arguments.whole("n", given)) for given in (3, 3.0, numpy.int64(3))] == [int, int, int]
    assert arguments.texts("slos", "ttft p99 < 2", "") == ("ttft p99 < 2",)
    assert arguments.texts("slos", ["a", "b"], "") == ("a", "b")
    assert arguments.lets("sets", {"rate": numpy.int64(2), "size": "2 * 3"}) == {"rate": 2, "size": "2 * 3"}


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: arguments.path("file", 42), "file=42: it must be a path, .* not of type int"),
        (lambda: arguments.number("x", "5"), "x='5': it must be a number, not of type str"),
        (lambda: arguments.number("x", True), "x=True: it must be a number, not of type bool"),
        (lambda: arguments.whole("n", None), "n=None: it must be a whole number, not None"),
        (lambda: arguments.flag("steps", "yes"), "steps='yes': it must be True or False"),
        (lambda: arguments.texts("slos", [3], "tpot p99 < 1"), r"slos\[0\]=3: .* such as \"tpot p99 < 1\""),
        (lambda: arguments.texts("slos", 3, "tpot p99 < 1"), r"slos=3: .* such as \[\"tpot p99 < 1\"\]"),
        (lambda: arguments.lets("sets", "rate=3"), r"sets='rate=3': it must be values by name, such as {"),
        (lambda: arguments.lets("sets", {"rate": [1, 2]}), r"sets\['rate'\]=\[1, 2\]: it must be a number"),
        (lambda: arguments.lets("sets", {3: 1}), "a name in sets=3: it must be a text"),
        (lambda: arguments.number("x", "y" * 500), "x='y{59}…: it must be a number"),
        (lambda: arguments.only_known("sweep", ["rep"], ["reps", "out"]), "no argument `rep`; .* `reps`"),
        (lambda: arguments.only_known("sweep", ["zzz"], ["reps", "out"]), "`zzz`; it takes reps, out"),
    ],
)
def test_what_cannot_be_meant(check: Callable[[], Any], message: str) -> None:
    """One error that is of serq, of usage, and a TypeError as Python's own calls raise it."""
    with pytest.raises(WrongTypeError, match=message) as caught:
        check()
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, UsageError)


@pytest.mark.parametrize("given", [2.5, float("nan"), float("inf")])
def test_a_number_that_is_not_whole(given: float) -> None:
    with pytest.raises(UsageError, match=r"n=.*: it must be a whole number"):
        arguments.whole("n", given)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: serq.run(42), "program"),
    (serq.run, "program"),
    (lambda: serq.run(QUEUE, steps="yes", **SHORT), "steps"),
    (lambda: serq.run(QUEUE, out=3, **SHORT), "out"),
    (lambda: serq.run(QUEUE, reps=3, **SHORT), "reps"),
    (lambda: serq.compile(42), "path"),
    (lambda: serq.compile(source=3), "source"),
    (lambda: serq.compile(QUEUE, sets="rate=2"), "sets"),
    (lambda: serq.compile(QUEUE, sets={"rate": None}), r"sets\['rate'\]"),
    (lambda: serq.compile(QUEUE, seed="1"), "seed"),
    (lambda: serq.compile(QUEUE, horizon="100"), "horizon"),
    (lambda: serq.compile(QUEUE, warmup=[1]), "warmup"),
    (lambda: serq.compile(QUEUE, arrivals="5"), "arrivals"),
    (lambda: serq.compile(QUEUE, trace=5), "trace"),
    (lambda: serq.compile(QUEUE, slos=5), "slos"),
    (lambda: serq.check(42), "path"),
    (lambda: serq.read_run(3), "folder"),
    (lambda: serq.open_run_folder("x", QUEUE), "program"),
    (lambda: serq.sweep(3, {"rate": 2}), "file"),
    (lambda: serq.sweep(QUEUE, ["rate=2"]), "axes"),
    (lambda: serq.sweep(QUEUE, {"rate": [2, None]}), r"axes\['rate'\]\[1\]"),
    (lambda: serq.sweep(QUEUE, {"rate": None}), r"axes\['rate'\]"),
    (lambda: serq.sweep(QUEUE, {"rate": 2}, replications="2"), "replications"),
    (lambda: serq.sweep(QUEUE, {"rate": 2}, jobs="2"), "jobs"),
    (lambda: serq.sweep(QUEUE, {"rate": 2}, out=3), "out"),
    (lambda: serq.sweep(QUEUE, {"rate": 2}, horizn=3), "horizn"),
    (lambda: serq.sweep(QUEUE, {"rate": 2}, horizon="3"), "horizon"),
    (lambda: serq.capacity(QUEUE, 3), "over"),
    (lambda: serq.capacity(QUEUE, "rate", start="1"), "start"),
    (lambda: serq.capacity(QUEUE, "rate", tolerance="x"), "tolerance"),
    (lambda: serq.capacity(QUEUE, "rate", lowest="x"), "lowest"),
    (lambda: serq.capacity(QUEUE, "rate", highest="x"), "highest"),
    (lambda: serq.capacity(QUEUE, "rate", slos=[3]), r"slos\[0\]"),
    (lambda: serq.capacity(QUEUE, "rate", reps=3), "reps"),
    (lambda: serq.compare(3), "a"),
    (lambda: serq.compare(QUEUE, 3), "b"),
    (lambda: serq.compare(QUEUE, sets_b=["rate"]), "sets_b"),
    (lambda: serq.compare(QUEUE, sets_b={"rate": 2}, metric=3), "metric"),
    (lambda: serq.compare(QUEUE, sets_b={"rate": 2}, reps=3), "reps"),
]


@pytest.mark.parametrize(("call", "argument"), CALLS)
def test_every_call_says_which_argument_is_wrong(call: Callable[[], Any], argument: str) -> None:
    with pytest.raises(WrongTypeError, match=rf"^{argument}=|argument `{argument}`"):
        call()


def test_a_program_and_a_trace_in_each_others_place(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("0,1,2,3,0\n", "utf-8")
    with pytest.raises(UsageError, match=r"trace\.csv: a program is wanted here, and \.csv is the"):
        serq.run(trace)
    with pytest.raises(UsageError, match=r"1_queue\.sq: a trace is wanted here"):
        serq.run(QUEUE, trace=QUEUE)


def test_figures_and_limits_of_a_study() -> None:
    study = serq.sweep(QUEUE, {"rate": 2}, **SHORT)
    for call, argument in (
        (lambda: study.show(3), "figure"),
        (lambda: study.plot("response.mean", limit="2"), "limit"),
        (lambda: study.plot("response.mean", x=3), "x"),
        (lambda: study.change(3, "rate", 2, 3), "figure"),
    ):
        with pytest.raises(WrongTypeError, match=f"^{argument}="):
            call()
    with pytest.raises(UsageError, match=r"no column `speed`; its settings are `point`, `rate`$"):
        study.plot("response.mean", x="speed")
