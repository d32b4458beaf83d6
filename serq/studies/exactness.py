"""Whether a program draws anything: one that does not gives the same with every seed."""

from __future__ import annotations

from typing import Final

from serq import api
from serq.ir.expressions import Draw, Number
from serq.ir.nodes import Poisson, Traced
from serq.ir.serving import Request, Speculative
from serq.ir.walk import descendants

EXACT: Final = "nothing is drawn, so every seed gives the same: one was run, and the values are exact"
_CERTAIN: Final = (0.0, 1.0)


def draws_nothing(program: api.Program) -> bool:
    """Whether no run of the program takes a random number, as far as its text tells.

    Random are `arrive poisson`, every `~` but `~det`, drafts that are taken with a chance between 0 and 1,
    and which session of a trace an arriving one replays, unless the trace is `ordered` or times the arrivals
    (R-B-083).
    """
    workload = program.ir.workload
    trace = program.trace_file is not None
    if trace and not workload.ordered and not isinstance(workload.arrive, Traced):
        return False
    return not any(map(_random, descendants(program.ir)))


def _random(node: object) -> bool:
    match node:
        case Poisson():
            return True
        case Draw(distribution):
            return distribution != "det"
        case Speculative():
            return any(chance not in _CERTAIN for chance in node.accept)
        case Request():
            return not all(isinstance(e, Number) and e.value in _CERTAIN for e in node.accept)
    return False
