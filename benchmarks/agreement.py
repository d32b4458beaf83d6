"""Do the engines that are compared compute the same thing? Speed says nothing where they do not."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose

from benchmarks.jobs import Job, Outcome
from benchmarks.peers.base import Peer


@dataclass(frozen=True)
class Disagreement:
    """Where a peer and serq differ in one quantity."""

    quantity: str
    ours: float
    theirs: float

    def __str__(self) -> str:
        return f"{self.quantity} {self.theirs:.12g}, ours {self.ours:.12g}"


def disagreements(peer: Peer, job: Job, ours: Outcome, theirs: Outcome) -> list[Disagreement]:
    """What differs between two outcomes under the same price, of what both say and ``peer`` models.

    Counts must be equal, means equal within the peer's tolerance; all requests must have ended. Where the
    peer has rules of its own, means may be further apart.
    """
    own = peer.own_rules(job)
    allowed = peer.tolerance if own is None else own.tolerance
    found = []
    for quantity in ("requests", *peer.compares):
        our_value, their_value = getattr(ours, quantity), getattr(theirs, quantity)
        if our_value is None or their_value is None:
            continue
        exact = isinstance(our_value, int) and isinstance(their_value, int)
        tolerance = 0.0 if exact else allowed
        if not isclose(our_value, their_value, rel_tol=tolerance):
            found.append(Disagreement(quantity, our_value, their_value))
    return found
