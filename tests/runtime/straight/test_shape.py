"""Which programs are straight."""

from __future__ import annotations

import pytest

import serq
from serq.ir import nodes
from serq.runtime.straight.shape import straight

SLOTS = "pool slots { cap 8; admit via gpu; }"
KV = "pool kv { cap 1000; block 16; preempt lifo; }"
GPU = "stage gpu : step { budget 64; memory kv; cost 0.5; }"
INIT = "set a = floor(~exp(30)); set b = new + 2 * a - min(a, 3); set c = ~exp(9);"


def program(
    units: str = "b",
    prefill: str = "b + (a > 3)",
    decode: str = "a",
    *,
    slots: str = SLOTS,
    kv: str = KV,
    gpu: str = GPU,
    before: str = "turn;",
    between: str = "observe first = now;",
    clauses: str = "",
    arrive: str = "poisson(1)",
) -> nodes.Program:
    text = f"""
    {slots} {kv} {gpu} stage d : delay;
    workload {{ arrive {arrive}; init {{ {INIT} }} }}
    session {{
      {before}
      hold slots (1), kv ({units}) reserve (a) {{
        prefill ({prefill}) growing kv; {between} decode ({decode}) growing kv;
      }} {clauses}
      observe done = now;
    }}
    run {{ horizon 10; }}
    """
    return serq.compile(source=text).ir


def test_the_parts() -> None:
    found = straight(program())
    assert found is not None
    assert (found.slots.name, found.memory.name, found.engine.name) == ("slots", "kv", "gpu")
    assert [type(statement) for statement in found.before] == [nodes.Turn]
    assert [type(statement) for statement in found.prefilled] == [nodes.Observe]
    assert found.prefill.mode == "prefill" and found.decode.mode == "decode"
    assert not found.admitted and not found.decoded and len(found.after) == 1
    assert not found.at_once
    batch = straight(program(arrive="batch(3)"))
    assert batch is not None and batch.at_once


@pytest.mark.parametrize(
    "changes",
    [
        {"decode": "c"},
        {"decode": "think"},
        {"prefill": "a / 2"},
        {"units": "a * a"},
        {"before": "turn; set a = a + c;"},
        {"before": "run d (1);"},
        {"between": "run d (1);"},
        {"clauses": "cache (think)"},
        {"clauses": "cache (9)", "kv": "pool kv { cap 1000; block 16; preempt lifo; evict by (last); }"},
        {"arrive": "closed(3)"},
        {"kv": "pool kv { cap 1000; block 16; }"},
        {"kv": "pool kv { cap 1000; block 2.5; preempt lifo; }"},
        {"slots": "pool slots { cap 8; }"},
        {"slots": "pool slots { cap 65; admit via gpu; }"},
        {"slots": "pool slots { cap 8; admit via gpu; queue by (a); }"},
        {"gpu": "stage gpu : step { budget 64; chunk 16; memory kv; cost 0.5; }"},
        {"gpu": "stage gpu : step { budget 64; serve by (remaining); memory kv; cost 0.5; }"},
        {"gpu": "stage gpu : step { budget 64; serve exclusive prefill; memory kv; cost 0.5; }"},
        {"gpu": "stage gpu : step { budget 64; memory kv; cost 0.1 + ~exp(1); }"},
    ],
    ids=str,
)
def test_what_is_not_straight(changes: dict[str, str]) -> None:
    assert straight(program(**changes)) is None


def test_prefills_may_wait_for_decodes() -> None:
    first = "stage gpu : step { budget 64; serve decode first; memory kv; cost 0.1 + 0.001 * kv_decode; }"
    assert straight(program(gpu=first)) is not None
