"""Whatever is given, the answer is a program or a message, and it comes soon."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from serq.errors import CompileError
from serq.grammar import link_program, tables
from serq.ir.codec import decode, encode
from serq.source import SourceFile
from tests.conformance.recordings import recordings
from tests.grammar.texts import codes, link

TEXTS = [recording.path.read_text("utf-8") for recording in recordings().values()]
ROUNDS = 120


def answer(text: str) -> None:
    """A program that survives the way to JSON and back, or messages that can be shown."""
    try:
        program = link_program(SourceFile("mutant.sq", text)).program
    except CompileError as error:
        assert error.diagnostics and str(error)
        json.dumps([diagnostic.to_json() for diagnostic in error.diagnostics])
    else:
        assert decode(encode(program)) == program


# --- mutations of programs ----------------------------------------------------------------------------------

ODD = [
    "\0",
    "\a",
    '"',
    "#",
    "(",
    ")",
    "*/",
    "/*",
    "[",
    "{",
    "}",
    "é",
    "\u2028",
    "😀",
    "\ud800",
    "?",
    ".",
    "~",
    ";",
]


def characters(text: str, dice: random.Random) -> str:
    for _ in range(dice.randrange(1, 5)):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.randrange(1, 30))
        other = dice.choice(TEXTS)
        cut = dice.randrange(len(other))
        text = dice.choice(
            [
                text[:start] + text[end:],
                text[:start] + text[start:end] * dice.randrange(2, 6) + text[end:],
                text[:start] + dice.choice(ODD) + text[start:],
                text[:start] + other[cut : cut + 60] + text[end:],
                text[:start],
            ]
        )
    return text


def tokens(text: str, dice: random.Random) -> str:
    lark = tables.load()
    words = [str(token) for token in lark.lex(text)]
    others = [str(token) for token in lark.lex(dice.choice(TEXTS))]
    for _ in range(dice.randrange(1, 4)):
        here, there = dice.randrange(len(words)), dice.randrange(len(words))
        match dice.randrange(4):
            case 0:
                words[here] = dice.choice(others)
            case 1:
                words.insert(here, dice.choice(others))
            case 2:
                words[here], words[there] = words[there], words[here]
            case _:
                words[here : here + 3] = []
        if not words:
            break
    return " ".join(words)


@pytest.mark.parametrize("mutate", [characters, tokens])
@pytest.mark.parametrize("seed", range(4))
def test_mutated_programs(mutate: Any, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(ROUNDS):
        answer(mutate(dice.choice(TEXTS), dice))


# --- mutations of IR files ----------------------------------------------------------------------------------

VALUES = [None, True, 0, -1, 1.5, 2**70, 1e308, "", "x", "inf", [], {}, {"float": "inf"}, {"float": 3}, [[]]]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield from paths(value[key], (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutated(value: Any, dice: random.Random) -> Any:
    places = [path for path in paths(value) if path]
    *outer, key = dice.choice(places)
    container = at(value, tuple(outer))
    match dice.randrange(4):
        case 0:
            container[key] = json.loads(json.dumps(dice.choice(VALUES)))
        case 1:
            del container[key]
        case 2:
            container[key] = json.loads(json.dumps(at(value, dice.choice(places))))
        case _ if isinstance(container, list):
            container.insert(key, json.loads(json.dumps(container[key])))
        case _:
            container["extra"] = 1
    return value


@pytest.mark.parametrize("seed", range(4))
def test_mutated_ir_files(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(ROUNDS):
        try:
            plain = json.loads(encode(link(dice.choice(TEXTS)).program))
        except CompileError:
            continue
        for _ in range(dice.randrange(1, 3)):
            plain = mutated(plain, dice)
        try:
            program = decode(json.dumps(plain).encode())
        except CompileError as error:
            assert error.diagnostics and str(error)
        else:
            assert decode(encode(program)) == program


# --- depth and size -----------------------------------------------------------------------------------------

DEEP = {
    "parentheses": "let a = " + "(" * 10_000 + "1" + ")" * 10_000 + ";",
    "minus signs": "let a = " + "-" * 10_000 + "1;",
    "terms": "let a = " + "1 + " * 10_000 + "1;",
    "chains in chains": "let a = " + "1 + (1 ? 1 : " * 150 + "1" + ")" * 150 + ";",
    "powers": "let a = " + "1 ^ " * 10_000 + "1;",
    "conditions": "let a = " + "1 ? 1 : " * 10_000 + "1;",
    "calls": "let a = " + "abs(" * 10_000 + "1" + ")" * 10_000 + ";",
    "branches": "session { " + "branch (1) { " * 5_000 + "}" * 5_000 + " }",
    "branches less deep": "session { " + "branch (1) { " * 150 + "}" * 150 + " }",
    "members": "pool p { } session { observe x = " + "used(p[" * 5_000 + "0" + "])" * 5_000 + "; }",
    "blocks never closed": "session { " + "loop { " * 5_000,
    "brackets never closed": "let a = " + "(" * 10_000,
    "defs": "def f0(x) = x;"
    + "".join(f"def f{i}(x) = f{i - 1}(x) + 1;" for i in range(1, 300))
    + "let a = f299(1);",
    "statement defs": "def f0(x) { }"
    + "".join(f"def f{i}(x) {{ loop {{ f{i - 1}(x); }} }}" for i in range(1, 300))
    + "session { f299(1); }",
}


@pytest.mark.parametrize("what", DEEP)
def test_what_is_nested_too_deep_gets_a_message(what: str) -> None:
    assert "E108" in codes(DEEP[what])


@pytest.mark.parametrize(
    "text",
    [
        "let a = " + "(" * 48 + "1" + ")" * 48 + ";",
        "let a = " + " + ".join(["1"] * 4_000) + ";",
        "let a = " + "1 ? 1 : " * 4_000 + "1;",
        "pool p { } session { " + "hold p (1) { " * 95 + "end;" + "}" * 95 + " }",
        "session { " + "branch (1) { end; } else { " * 95 + "}" * 95 + " }",
    ],
)
def test_what_people_write_is_not_too_deep(text: str) -> None:
    answer(text)
    assert codes(text) == []


DOUBLING = "".join(f"def f{i}(x) = f{i - 1}(x) + f{i - 1}(x);" for i in range(1, 40))
GROWING = {
    "expression defs": f"def f0(x) = x + x; {DOUBLING} session {{ observe v = f39(1); }}",
    "arguments": "def f(x) = x + x; session { observe v = " + "f(" * 30 + "1" + ")" * 30 + "; }",
    "statement defs": "def f0() { end; }"
    + "".join(f"def f{i}() {{ f{i - 1}(); f{i - 1}(); }}" for i in range(1, 40))
    + "session { f39(); }",
    "empty statement defs": "def f0() { }"
    + "".join(f"def f{i}() {{ f{i - 1}(); f{i - 1}(); }}" for i in range(1, 40))
    + "session { f39(); }",
    "bindings": "pool p { } session { hold p (x39) at admission (x0 = 1, "
    + ", ".join(f"x{i} = x{i - 1} + x{i - 1}" for i in range(1, 40))
    + ") { } }",
}


@pytest.mark.parametrize("what", GROWING)
def test_what_does_not_stop_growing_gets_a_message(what: str) -> None:
    assert codes(GROWING[what]) == ["E216"]


@pytest.mark.parametrize(
    "text", ["let a = sum i in 10000 (sum j in 10000 (1));", "let a = sum i in 1e6 (i);"]
)
def test_constants_are_not_computed_for_ever(text: str) -> None:
    assert codes(text) == ["E206"]


BODY = """
  set x = serial * 3 + floor(now / 7);
  hold kv[floor(x - 4 * floor(x / 4))] (min(64, 16 + x)) {
    run gpu prefill (prompt - cached) growing kv[0];
    observe ttft = now - start + used(kv[1]) * 0.001;
    branch (x > 10 && serial != 3) {
      run think (~exp(2.5));
    } else {
      choose j in 4 by (queue(srv[j]) + work(srv[j]) * 0.5, j);
      run srv[j] (1 + x / 2);
    }
  } cache (prompt + 12)
"""
LONG = f"""
pool kv[4] {{ cap 4096; block 16; }}
stage gpu : step {{ budget 256; cost 0.01 + 1e-4 * tokens; memory kv; }}
stage think : delay;
stage srv[4] : fifo;
workload {{ arrive poisson(1); init {{ set prompt = 100; set start = now; }} }}
session {{ {BODY * 170} }}
run {{ horizon 100; }}
""".replace("memory kv; ", "")


def test_two_thousand_lines_are_checked_well_within_two_seconds() -> None:
    assert LONG.count("\n") > 2_000
    tables.load()
    start = time.process_time()
    link(LONG)
    assert time.process_time() - start < 1.5  # about 0.45 on a machine that does nothing else
