"""Long chains through every pass: text, formatter, IR file and back."""

import json
from dataclasses import dataclass

import pytest

from serq import api
from serq.errors import CompileError
from serq.grammar.printer import format_source
from serq.ir.codec import decode, encode
from serq.ir.limits import MAX_CHAIN
from serq.ir.nodes import IR_VERSION, Binary, Conditional, Expr, Number, Observe, Program, RunSettings
from serq.ir.printer import expression
from serq.source import SourceFile


def program(value: Expr) -> Program:
    statement = Observe(id=0, series="x", value=value)
    return Program(version=IR_VERSION, session=(statement,), run=RunSettings(horizon=1.0))


def chain(operator: str, terms: int) -> Expr:
    value: Expr = Number(0.0)
    for index in range(1, terms):
        value = Binary(operator, value, Number(float(index)))  # type: ignore[arg-type]
    return value


def table(arms: int) -> Expr:
    value: Expr = Number(-1.0)
    for index in reversed(range(arms)):
        value = Conditional(Number(0.0), Number(float(index)), value)
    return value


@dataclass
class Case:
    text: str
    value: Expr


CASES = {
    "sum": Case(" + ".join(map(str, range(2_000))), chain("+", 2_000)),
    "quotient": Case(" / ".join(map(str, range(2_000))), chain("/", 2_000)),
    "and": Case(" && ".join(map(str, range(2_000))), chain("&&", 2_000)),
    "or": Case(" || ".join(map(str, range(2_000))), chain("||", 2_000)),
    "table": Case("".join(f"0 ? {i} : " for i in range(2_000)) + "-1", table(2_000)),
}


@pytest.mark.parametrize("what", CASES)
def test_a_long_chain_goes_through_every_pass(what: str) -> None:
    case = CASES[what]
    if what != "table":  # `-1` is a minus applied to 1 there, not a number
        source = f"session {{ observe x = {case.text}; }} run {{ horizon 1; }}"
        assert api.compile(source=source).ir.session == program(case.value).session
    assert expression(case.value) == case.text
    assert decode(encode(program(case.value))) == program(case.value)


@pytest.mark.parametrize("what", CASES)
def test_a_long_chain_is_formatted(what: str) -> None:
    text = f"let a = {CASES[what].text};"
    formatted = format_source(SourceFile("x.sq", text))
    assert formatted.split() == text.split()
    assert max(map(len, formatted.splitlines())) <= 100


def test_a_chain_of_100_levels_is_written_node_in_node_and_a_longer_one_flat() -> None:
    def written(value: Expr) -> dict[str, object]:
        found: dict[str, object] = json.loads(encode(program(value)))["session"][0]["value"]
        return found

    assert written(chain("-", 100))["node"] == "binary"
    flat = written(chain("-", 101))
    assert (flat["node"], flat["operators"]) == ("chain", ["-"] * 100)
    assert written(table(99))["node"] == "conditional"
    assert written(table(100))["node"] == "arms"


def test_programs_that_differ_at_the_end_of_a_chain_differ() -> None:
    longer = Binary("+", chain("+", 2_000), Number(5.0))
    assert program(longer) != program(Binary("+", chain("+", 2_000), Number(6.0)))
    assert program(longer) == program(Binary("+", chain("+", 2_000), Number(5.0)))
    assert hash(program(longer)) == hash(program(Binary("+", chain("+", 2_000), Number(5.0))))


@pytest.mark.parametrize("make", [lambda n: chain("+", n), lambda n: table(n - 1)])
def test_the_limit_of_a_chain(make) -> None:  # type: ignore[no-untyped-def]
    assert decode(encode(program(make(MAX_CHAIN)))) == program(make(MAX_CHAIN))
    with pytest.raises(CompileError, match="more than 5000 terms"):
        decode(encode(program(make(MAX_CHAIN + 1))))


ONE = {"node": "number", "value": 1.0}
BROKEN = [
    {"node": "chain", "operands": [ONE], "operators": ["+"]},
    {"node": "chain", "operands": [], "operators": []},
    {"node": "chain", "operands": [ONE, ONE], "operators": ["&"]},
    {"node": "chain", "operands": [ONE, 1.0], "operators": ["+"]},
    {"node": "chain", "operands": [ONE, ONE]},
    {"node": "arms", "conditions": [ONE], "values": [ONE]},
    {"node": "arms", "conditions": ONE, "values": [ONE]},
]


@pytest.mark.parametrize("value", BROKEN)
def test_what_is_no_flat_chain_is_refused(value: object) -> None:
    plain = json.loads(encode(program(Number(1.0))))
    plain["session"][0]["value"] = value
    with pytest.raises(CompileError) as caught:
        decode(json.dumps(plain).encode())
    assert caught.value.diagnostics[0].code == "E503"
