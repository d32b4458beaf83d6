"""What a broken rule says: when, who, where; and nothing that was recorded is lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import serq
from serq.errors import InterruptedRunError, RunError
from serq.runtime.simulation import simulate
from tests.runtime.programs import batch, records


def failure(source: str) -> RunError:
    with pytest.raises(RunError) as raised:
        records(source)
    return raised.value


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ("@run d (0 - serial);", "negative-amount"),
        ("@run d (z / z);", "negative-amount"),
        ("@hold p (0 - serial) { }", "negative-amount"),
        ("@hold p (1) reserve (z / z) { }", "negative-amount"),
        ("hold p (1) { @grow p (0 - serial); }", "negative-amount"),
        ("hold p (1) { @load p (0 - serial); }", "negative-amount"),
        ("hold p (1) { @load p (1 + serial); }", "load-beyond-allocation"),
        ("hold p (1) { release p; @grow p (1); }", "no-hold"),
        ("@branch (serial / 2) { }", "guard-not-boolean"),
        ("@observe y = used(q[1 + serial]);", "index-out-of-range"),
        ("@choose j in serial / 2 by (j); ", "count-not-whole"),
    ],
)
def test_the_statement_and_the_session_are_named(session: str, code: str) -> None:
    """Session 1 breaks the rule at 3, in the statement behind the @; session 0 does nothing wrong."""
    text = f"set z = 0; run d (3); observe x = 1;\nbranch (serial) {{ {session} }}"
    source = batch(text, "pool p { cap 9; } pool q[2] { }", count=2)
    column = source.index("@") - source.index("\n")
    error = failure(source.replace("@", ""))
    assert (error.code, error.time, error.session) == (code, 3.0, 1)
    assert error.diagnostic is not None and error.diagnostic.place == f"<source>:2:{column}"
    assert error.records is not None and error.records.stopped == error.message
    assert error.records.series["x"].values == [1.0, 1.0] and error.records.end == 3.0


def test_a_program_without_a_text_shows_its_statement() -> None:
    program = serq.compile(source=batch("run d (1); run d (0 - now);"))
    with pytest.raises(RunError) as raised:
        simulate(program.ir)
    assert raised.value.diagnostic is not None
    assert raised.value.diagnostic.place == "`run d (0 - now)`"


def test_an_iteration_with_tokens_must_take_time() -> None:
    error = failure(batch("run d (2); run e prefill (5);", "stage e : step { cost now - 2; }"))
    assert error.code == "iteration-costs-nothing" and error.time == 2.0
    assert "stage `e[0]`" in error.message


def test_an_expression_of_the_deployment_names_its_owner() -> None:
    source = batch(
        "hold p (1) { run d (1); }", "pool q[2] { } pool p { cap 1; queue by (used(q[now + 2])); }", count=2
    )
    error = failure(source)
    assert error.code == "index-out-of-range"
    assert error.diagnostic is not None and error.diagnostic.owner == "pool `p`, queue"


def test_the_interrupt_key_keeps_what_was_recorded() -> None:
    program = serq.compile(source=batch("loop { run d (1); observe x = now; }", horizon=1e6))

    def interrupt(now: float, events: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError) as raised:
        simulate(program.ir, progress=interrupt)
    run = raised.value.records
    assert run is not None and run.stopped == "interrupted"
    assert run.series["x"].values == [float(i) for i in range(1, len(run.series["x"].values) + 1)]


def test_running_needs_no_numpy() -> None:
    code = "import sys, serq.runtime.simulation; assert not {'numpy', 'pandas'} & sys.modules.keys()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
