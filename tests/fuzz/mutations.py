"""Broken inputs: programs, IR files and traces with something torn out, doubled, swapped or made extreme."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_NUMBER = re.compile(r"^[\d.]+$")
EXTREMES = (
    "0",
    "1",
    "2",
    "(-1)",
    "1e308",
    "1e309",
    "1e-320",
    "inf",
    "(0/0)",
    "9007199254740993",
    "0.1",
    "1_0",
)
WORDS = tuple(Path(__file__).with_name("words.txt").read_text("utf-8").split())
MARKS = (*"(){}[];,:=<>!?~^*/+-.&|\"'#\\$%@\0\ufeffé→", "//", "/*", "*/", "&&", "||", "==", "\r\n", "\t")


def mutated_text(rng: Random, text: str) -> str:
    """A program text with one to four things wrong, or cut short, or with junk in it."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(_TEXT_MUTATIONS)(rng, tokens)
    return "".join(tokens)


def _place(rng: Random, tokens: list[str]) -> int:
    return rng.randrange(len(tokens)) if tokens else 0


def _remove(rng: Random, tokens: list[str]) -> None:
    start = _place(rng, tokens)
    del tokens[start : start + rng.choice((1, 1, 2, 5))]


def _double(rng: Random, tokens: list[str]) -> None:
    start = _place(rng, tokens)
    tokens[start:start] = tokens[start : start + rng.choice((1, 3, 8, 30))]


def _swap(rng: Random, tokens: list[str]) -> None:
    if tokens:
        a, b = _place(rng, tokens), _place(rng, tokens)
        tokens[a], tokens[b] = tokens[b], tokens[a]


def _insert(rng: Random, tokens: list[str]) -> None:
    tokens.insert(_place(rng, tokens), f" {rng.choice(rng.choice((WORDS, MARKS, EXTREMES)))} ")


def _replace_word(rng: Random, tokens: list[str]) -> None:
    words = [i for i, token in enumerate(tokens) if token[0].isalpha()]
    if words:
        known = [tokens[i] for i in words]
        tokens[rng.choice(words)] = rng.choice(rng.choice((WORDS, known)))


def _extreme_number(rng: Random, tokens: list[str]) -> None:
    numbers = [i for i, token in enumerate(tokens) if _NUMBER.match(token)]
    if numbers:
        tokens[rng.choice(numbers)] = rng.choice(EXTREMES)


def _cut(rng: Random, tokens: list[str]) -> None:
    del tokens[_place(rng, tokens) :]


def _nest(rng: Random, tokens: list[str]) -> None:
    """Hundreds or thousands of brackets around one token."""
    if not tokens:
        return
    depth = rng.choice((50, 500, 5000))
    opening, closing = rng.choice(
        (("(", ")"), ("-", ""), ("!", ""), ("loop {", "}"), ("min(1,", ")"), ("1^", ""))
    )
    place = _place(rng, tokens)
    tokens[place] = opening * depth + tokens[place] + closing * depth


_TEXT_MUTATIONS: tuple[Callable[[Random, list[str]], None], ...] = (
    *(
        _remove,
        _remove,
        _double,
        _swap,
        _insert,
        _insert,
        _insert,
        _replace_word,
        _replace_word,
        _replace_word,
    ),
    *(_extreme_number, _extreme_number, _extreme_number, _extreme_number, _cut),
)
_RARE = (_nest,)


def mutated_program(rng: Random, text: str) -> str:
    """:func:`mutated_text`, and now and then a very deep one."""
    if rng.random() < 0.02:
        tokens = _TOKEN.findall(text)
        rng.choice(_RARE)(rng, tokens)
        return "".join(tokens)
    return mutated_text(rng, text)


# --- IR files -----------------------------------------------------------------------------------------------

LEAVES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    10**30,
    "",
    "x",
    "inf",
    [],
    {},
    [[]],
    {"node": "number"},
)


def mutated_ir(rng: Random, text: str) -> str:
    """An IR file with values of other kinds, missing or unknown keys, or parts from elsewhere in it."""
    if rng.random() < 0.15:
        return mutated_text(rng, text)
    root = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(root))
        if places:
            _mutate_place(rng, *rng.choice(places), places)
    return json.dumps(root)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key])
    return found


def _mutate_place(rng: Random, container: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    kind = rng.random()
    if kind < 0.3:
        container[key] = rng.choice(LEAVES)
    elif kind < 0.5:
        other, place = rng.choice(places)
        container[key] = json.loads(json.dumps(other[place]))
    elif kind < 0.65:
        del container[key]
    elif kind < 0.75 and isinstance(container, dict):
        container[rng.choice(("extra", "units", "name", "index"))] = rng.choice(LEAVES)
    elif isinstance(container[key], int | float) and not isinstance(container[key], bool):
        container[key] = rng.choice((0, -1, 0.5, 1e308, 10**18, 3))
    elif isinstance(container[key], str):
        container[key] = rng.choice((*WORDS, container[key] + "x", ""))


# --- traces -------------------------------------------------------------------------------------------------

CELLS = (
    "",
    "nan",
    "inf",
    "-1",
    "1e400",
    "1e18",
    "abc",
    " 3",
    "3 ",
    '"4"',
    "0x10",
    "٣",
    "1_000",
    "\0",
    "[]",
    "{}",
    "true",
)


def mutated_trace(rng: Random, text: str) -> bytes:
    """A trace with broken cells, rows or bytes."""
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not lines:
            break
        row = rng.randrange(len(lines))
        kind = rng.random()
        if kind < 0.5:
            cells = re.split(r"([,:])", lines[row])
            cells[rng.randrange(len(cells))] = rng.choice(CELLS)
            lines[row] = "".join(cells)
        elif kind < 0.65:
            del lines[row]
        elif kind < 0.8:
            lines.insert(rng.randrange(len(lines) + 1), lines[row])
        else:
            lines[row] = mutated_text(rng, lines[row])
    data = rng.choice(("\n", "\n", "\r\n", "\r")).join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        place = rng.randrange(len(data) + 1)
        data = data[:place] + bytes(rng.randrange(256) for _ in range(4)) + data[place:]
    return data if rng.random() < 0.97 else data[: len(data) // 2]
