"""What holds for the formatted text of every program, however ugly."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serq.errors import CompileError
from serq.grammar import link_program
from serq.grammar.parser import parse
from serq.ir.codec import encode
from serq.source import SourceFile
from tests.grammar.formatted import formatted
from tests.grammar.ugly import Tokens, comments_of, lengthened, programs, sprinkle, tokens_of
from tests.shared import ROOT

HANDED = sorted((ROOT / "tests" / "conformance").glob("[AB]/*.sq"))

randoms = st.integers(0, 2**32).map(Random)
"""Much faster than hypothesis' own, which shrinks every single draw."""

slow_inputs = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def ir(text: str) -> bytes | None:
    """The program's IR; None where it does not link."""
    try:
        return encode(link_program(SourceFile("x.sq", text)).program)
    except CompileError:
        return None


def without_semicolons(text: str) -> Tokens:
    """The tokens but `;`: which of those are left out is seen in the IR and in examples."""
    return [token for token in tokens_of(text) if token != ";"]


@cache
def readable(path: Path) -> bool:
    return not parse(SourceFile("x.sq", path.read_text("utf-8"))).diagnostics


def check(text: str) -> str:
    """Everything that must hold of the formatted text; what it is."""
    out = formatted(text)
    assert formatted(out) == out, "formatting twice changes something"
    assert without_semicolons(out) == without_semicolons(text)
    assert comments_of(out) == comments_of(text)
    assert "\r" not in out
    assert out == "" or (out.endswith("\n") and not out.endswith("\n\n"))
    for line in out.split("\n"):
        assert line == line.rstrip()
        assert not line.startswith("\t")
    assert "\n\n\n" not in re.sub(r"/\*(?s:.*?)\*/", "comment", out)
    return out


@pytest.mark.parametrize("path", [path for path in HANDED if readable(path)], ids=lambda path: path.stem)
def test_handed_program(path: Path) -> None:
    text = path.read_text("utf-8")
    assert ir(check(text)) == ir(text)


@slow_inputs
@given(st.sampled_from([path for path in HANDED if readable(path)]), randoms)
def test_handed_program_with_its_layout_undone(path: Path, random: Random) -> None:
    text = path.read_text("utf-8")
    assert ir(check(sprinkle(tokens_of(text), random))) == ir(text)


@slow_inputs
@given(programs, st.booleans(), randoms)
def test_random_program(tokens: Tokens, long_names: bool, random: Random) -> None:
    text = sprinkle(lengthened(tokens, random) if long_names else tokens, random)
    parsed = parse(SourceFile("x.sq", text))
    assert not parsed.diagnostics, parsed.diagnostics[0].render()
    check(text)


@slow_inputs
@given(st.sampled_from([path for path in HANDED if readable(path)]), randoms)
def test_lines_fit(path: Path, random: Random) -> None:
    """Nothing in these programs is so long that it could not be broken."""
    text = " ".join(lengthened(tokens_of(path.read_text("utf-8")), random))
    assert max(len(line) for line in formatted(text).split("\n")) <= 100
