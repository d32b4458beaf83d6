"""Which context variable, attribute and draw is readable where (R-A-032, R-A-033).

The table is that of the rule; each place is a small program with a hole for the expression.
"""

from __future__ import annotations

import pytest

from tests.grammar.texts import codes

PLACES = {
    "init": "workload { hidden h; init { set h = 1; set q = HOLE; } } session { }",
    "turn": "workload { hidden h; turn { set h = 1; observe q = HOLE; } } session { turn; }",
    "statement": "session { observe q = HOLE; }",
    "guard": "session { branch (HOLE > 3) { end; } }",
    "work": "session { run f (HOLE); }",
    "grow": "session { hold p (1) { grow p (HOLE); } }",
    "load": "session { hold p (1) { load p (HOLE); } }",
    "units": "session { hold p (HOLE) { } }",
    "reserve": "session { hold p (1) reserve (HOLE) { } }",
    "reuse": "session { hold p (1) reuse (HOLE) { } cache (1) }",
    "binding": "session { hold p (n) at admission (n = HOLE) { } }",
    "member of a hold": "session { hold fam[HOLE] (1) { } }",
    "cache": "session { hold p (1) { } cache (HOLE) }",
    "lease": "session { hold p (1) { } lease p (HOLE) }",
    "choose count": "session { choose j in HOLE by (1); }",
    "choose key": "session { choose j in 3 by (HOLE); }",
    "queue key": "pool r { queue by (HOLE); }",
    "evict key": "pool r { evict by (HOLE); }",
    "spill work": "pool r { spill p via f (HOLE) when (1); }",
    "spill condition": "pool r { spill p via f (1) when (HOLE); }",
    "capacity": "stage z : ps(HOLE);",
    "budget": "stage z : step { cost 1; budget HOLE; }",
    "chunk": "stage z : step { cost 1; chunk HOLE; }",
    "cost": "stage z : step { cost HOLE; }",
    "serve key": "stage z : step { cost 1; serve by (HOLE); }",
    "serve only": "stage z : step { cost 1; serve only (HOLE); }",
    "gap": "workload { hidden h; arrive renewal(1 + HOLE); init { set h = 1; } }",
}
SESSION = {
    *("init", "turn", "statement", "guard", "work", "grow", "load", "member of a hold", "cache", "lease"),
    *("choose count", "choose key"),
}
HEADER = {"units", "reserve", "reuse", "binding"}
EVICTION = {"evict key", "spill work", "spill condition"}
STEP = {"budget", "chunk", "cost", "serve key", "serve only"}
COST = {"cost"}
SERVE = {"serve key", "serve only"}
NO_SESSION = {"capacity", "budget", "chunk", "cost", "gap"}
EVERYWHERE = set(PLACES)

READABLE = {
    "3": EVERYWHERE,
    "now": EVERYWHERE - {"gap"},
    "used(p)": EVERYWHERE - {"gap"},
    "cachedin(p)": EVERYWHERE - {"gap"},
    "queue(f)": EVERYWHERE - {"gap"},
    "blocksize(p)": EVERYWHERE,
    "waited": {"queue key"},
    **dict.fromkeys(("size", "age", "last", "waiting"), EVICTION),
    "present": {"capacity"},
    **dict.fromkeys(("residents", "decoders", "kv_decode", "kv_prefill"), STEP),
    **dict.fromkeys(("tokens", "prefilled", "attention"), COST),
    **dict.fromkeys(("decoding", "admission", "remaining"), SERVE),
    **dict.fromkeys(("serial", "cached", "out"), EVERYWHERE - NO_SESSION),
    "h": SESSION,
    "~exp(1)": EVERYWHERE - {"queue key", "binding"} - SERVE,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("expression", READABLE)
def test_what_is_readable_where(expression: str, place: str) -> None:
    declarations = "pool p { cap 9; block 2; } pool fam[4] { } stage f : fifo;"
    text = f"{declarations} {PLACES[place].replace('HOLE', expression)}"
    if "hidden" not in text:
        text += " workload { hidden h; init { set h = 1; } }"
    readable = place in READABLE[expression]
    assert (codes(text) == []) == readable, codes(text)
