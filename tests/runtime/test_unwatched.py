"""Whose plans nobody looks at."""

from __future__ import annotations

import pytest

import serq
from serq.ir import nodes
from serq.runtime.unwatched import arrives_calmly, is_unwatched

SLOTS = "pool slots { cap 4; admit via gpu; }"
KV = "pool kv { cap 1000; block 16; }"
GPU = "stage gpu : step { budget 64; memory kv; cost 0.5; }"
HOLD = "hold slots (1), kv (budget_left(gpu)) { run gpu prefill (100); run gpu decode (9) growing kv; }"
FAMILY = {
    "pools": "pool slots[2] { cap 4; admit via gpu; } pool kv[2] { cap 1000; }",
    "stage": "stage gpu[2] : step { cost 0.5; }",
}
INDEXED = "set i = serial; hold slots[i] (1), kv[i] (8) { run gpu[i] decode (9) growing kv[i]; }"


def program(session: str = HOLD, pools: str = SLOTS + KV, stage: str = GPU, more: str = "") -> nodes.Program:
    text = (
        f"{pools} {stage} stage d : delay; {more} workload {{ arrive poisson(1); }} "
        f"session {{ {session} observe done = now; }} run {{ horizon 10; }}"
    )
    return serq.compile(source=text).ir


def test_headers_may_read_the_budget_that_admits_them() -> None:
    assert is_unwatched(program())
    assert is_unwatched(program("run d (1); " + HOLD))
    assert is_unwatched(program("hold kv (9) { run gpu decode (9) growing kv; }"))


@pytest.mark.parametrize(
    "changes",
    [
        {"more": "gauge g = used(kv);"},
        {"session": f"observe work = work(gpu); {HOLD}"},
        {"session": f"{HOLD} branch (free(kv) > 9) {{ run d (1); }}"},
        {"session": "hold kv (budget_left(gpu)) { run gpu decode (9) growing kv; }"},
        {"session": "hold slots (1), kv (now) { run gpu decode (9) growing kv; }"},
        {"session": "hold slots (1), kv (~exp(9)) { run gpu decode (9) growing kv; }"},
        {"session": "hold kv (9) { grow kv (9); run gpu decode (9) growing kv; }"},
        {"session": "hold kv (9) { run gpu decode (9) growing kv; } lease kv (3)"},
        {"pools": "pool slots { cap 4; admit via gpu; queue by (waited); }" + KV},
        {"stage": "stage gpu : step { budget 64 - decoders; cost 0.5; }"},
        {"more": "stage other : step { cost 1; }"},
        {"more": "stage shared : ps(2);"},
    ],
    ids=str,
)
def test_what_reads_or_takes_besides(changes: dict[str, str]) -> None:
    assert not is_unwatched(program(**changes))


def test_members_are_apart_where_a_session_stays_with_one_while_it_holds_something() -> None:
    assert is_unwatched(program(INDEXED, **FAMILY))
    assert not is_unwatched(program(INDEXED.replace("kv[i] (8) {", "kv[i] (8) { set i = 0;"), **FAMILY))
    assert not is_unwatched(program(INDEXED.replace("growing kv[i]", "growing kv[1]"), **FAMILY))
    shared = {**FAMILY, "pools": "pool slots[2] { cap 4; admit via gpu; } pool kv { cap 1000; }"}
    assert not is_unwatched(program(INDEXED.replace("kv[i]", "kv"), **shared))


def test_an_arrival_is_calm_unless_it_takes_of_a_pool_that_grows() -> None:
    assert arrives_calmly(program())
    assert arrives_calmly(program("run gpu prefill (3); " + HOLD))
    assert not arrives_calmly(program("hold kv (9) { run gpu decode (9) growing kv; }"))
    inside = "branch (serial > 1) { hold kv (9) { run gpu decode (9) growing kv; } }"
    assert not arrives_calmly(program(inside))
