"""IR files: nothing is lost, nothing else is let in."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings

from serq.errors import CompileError
from serq.ir.codec import decode, encode
from serq.ir.nodes import Expr, Hold, HoldUnit, Number, Observe, Pool, PoolRef, Program, Set
from tests.grammar.texts import program
from tests.ir.expressions import DECLARATIONS, expressions

WITH_INFINITIES = Program(
    1,
    pools=(Pool("p", capacity=inf, block=inf), Pool("q", capacity=-inf)),
    session=(Hold((HoldUnit(PoolRef("p"), Number(inf)),), (), id=0),),
)


def refusal(data: bytes) -> CompileError:
    with pytest.raises(CompileError) as refused:
        decode(data)
    return refused.value


def test_infinities_survive() -> None:
    data = encode(WITH_INFINITIES)
    assert decode(data) == WITH_INFINITIES
    assert json.loads(data)["pools"][1]["capacity"] == {"float": "-inf"}


def test_a_negative_zero_survives() -> None:
    read = decode(encode(Program(1, session=(Observe("x", Number(-0.0), id=0),))))
    (observed,) = read.session
    assert isinstance(observed, Observe) and isinstance(observed.value, Number)
    assert str(observed.value.value) == "-0.0"


@settings(max_examples=100, deadline=None)
@given(expressions())
def test_every_expression_survives(node: Expr) -> None:
    declared = program(DECLARATIONS)
    session = (Set("a", Number(1.0), id=0), Set("b", Number(1.0), id=1), Observe("x", node, id=2))
    whole = Program(1, declared.pools, declared.stages, session=session)
    data = encode(whole)
    assert decode(data) == whole
    assert encode(decode(data)) == data


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(encode(WITH_INFINITIES)), **fields}).encode()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "E501"),
        (b"not json", "E501"),
        (b"[]", "E501"),
        (b"{}", "E501"),
        (b"null", "E501"),
        (bytes(range(256)), "E501"),
        ('{"node": "serq", "version": 1}'.encode("utf-16"), "E501"),
        (b'{"node": "serq", "version": 1, "version": 1}', "E501"),
        (b'{"node": "serq", "version": 1, "run": {"node": "run_settings", "horizon": NaN}}', "E501"),
        (b"[" * 100_000 + b"]" * 100_000, "E501"),
        (changed(version=2), "E502"),
        (changed(version="1"), "E502"),
        (changed(version=None), "E502"),
        (changed(version=True), "E502"),
        (changed(extra=1), "E503"),
        (changed(pools=[{"node": "pool_declaration"}]), "E503"),
        (changed(pools=[{"node": "pool_declaration", "name": "p", "capacity": {"float": "nan"}}]), "E503"),
        (changed(pools=[{"node": "pool_declaration", "name": "p", "capacity": None}]), "E503"),
        (changed(pools=[{"node": "pool_declaration", "name": "p", "capacity": 10**400}]), "E503"),
        (changed(pools=[{"node": "stage_declaration", "name": "p"}]), "E503"),
        (changed(session=[{"node": "fly", "id": 0}]), "E503"),
        (changed(session=[{"node": "set", "id": 0, "attribute": "x", "value": {"node": "draw"}}]), "E503"),
        (b'{"node": "serq", "version": 1, "run": {"node": "run_settings", "horizon": 1e999}}', "E503"),
        (changed(session=[{"node": "end", "id": 3}]), "E431"),
        (changed(share="maxmin"), "E418"),
    ],
)
def test_what_is_no_ir_file(data: bytes, code: str) -> None:
    (diagnostic,) = refusal(data).diagnostics
    assert diagnostic.code == code
    assert len(str(diagnostic.message)) < 300


def nested(depth: int, kind: str) -> bytes:
    if kind == "block":
        inner = b'[{"node": "loop", "id": 0, "body": ' * depth + b"[]" + b"}]" * depth
        return b'{"node": "serq", "version": 1, "session": ' + inner + b"}"
    value = (
        b'{"node": "unary", "operator": "-", "operand": ' * depth
        + b'{"node": "number", "value": 1.0}'
        + b"}" * depth
    )
    statement = b'[{"node": "observe", "id": 0, "series": "x", "value": ' + value + b"}]"
    return b'{"node": "serq", "version": 1, "session": ' + statement + b"}"


@pytest.mark.parametrize("kind", ["block", "expression"])
@pytest.mark.parametrize("depth", [150, 300, 5_000, 100_000])
def test_what_is_nested_too_deep_is_refused(kind: str, depth: int) -> None:
    (diagnostic,) = refusal(nested(depth, kind)).diagnostics
    assert "deep" in diagnostic.message


def test_a_message_names_the_place_in_the_program() -> None:
    session = [{"node": "release", "id": 0, "pool": {"node": "pool", "name": "p"}}]
    (diagnostic,) = refusal(changed(session=session)).diagnostics
    assert diagnostic.place == "session, statement 0 (`release p`)"
    queue = [{"node": "variable", "name": "size"}]
    pools = [{"node": "pool_declaration", "name": "p", "queue_by": queue}]
    (diagnostic,) = refusal(changed(pools=pools, session=[])).diagnostics
    assert diagnostic.place == "pool `p`"
