"""IR files that no compiler would write: refused, and nothing of them is run."""

from __future__ import annotations

import json

import msgspec
import pytest

import serq
from serq.errors import CompileError
from serq.runtime.simulation import simulate

PROGRAM = """
pool a { } stage b : delay;
workload { arrive batch(1); }
session { set c = 1; observe d = c; choose e in 2 by (e); run b (1); hold a (1) { } }
run { horizon 5; }
"""
BAD = ("", "1x", "x y", "x;y", "x\\ny", "x)(", "import os", "x-1")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e"])
def test_what_is_not_a_name_is_refused(name: str, bad: str) -> None:
    text = serq.compile(source=PROGRAM).to_json()
    with pytest.raises(CompileError, match="is not a name"):
        serq.Program.from_json(text.replace(f'"{name}"', f'"{bad}"'))


def test_a_name_that_only_looks_like_code_stays_text() -> None:
    """Even past the checks: the generated program holds no text of a name that is no identifier."""
    session = (serq.compile(source="session { observe d = 1; } run { horizon 1; }").ir.session[0],)
    odd = msgspec.structs.replace(session[0], series="d(s, 1); raise SystemExit #")
    ir = serq.compile(source="workload { arrive batch(1); } run { horizon 1; }").ir
    records = simulate(msgspec.structs.replace(ir, session=(odd,)))
    assert records.series["d(s, 1); raise SystemExit #"].values == [1]


def test_a_call_with_too_few_arguments_is_refused() -> None:
    program = "pool p { cap 3; } session { hold p (min(1, 2)) { } } run { horizon 5; }"
    tree = json.loads(serq.compile(source=program).to_json())
    del tree["session"][0]["units"][0]["units"]["arguments"][0]
    with pytest.raises(CompileError, match="2 arguments"):
        serq.Program.from_json(json.dumps(tree))
