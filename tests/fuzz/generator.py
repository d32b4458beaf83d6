"""One random program a seed, in the part of the base language where the reference can be trusted.

Left out on purpose: what the reference draws (seeded numbers are not comparable), and what we refuse or do
otherwise (docs/development.md lists it with the rules).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.declarations import Declarations
from tests.fuzz.deployment import random_deployment
from tests.fuzz.statements import Statements
from tests.fuzz.tree import Block, FuzzProgram, Piece


def random_program(seed: int) -> FuzzProgram:
    """The program of ``seed``; the same text for ever."""
    rng = Random(seed)
    deployment = random_deployment(rng)
    declare = Declarations(rng, deployment)
    workload = declare.workload()
    arrive = next(piece.head for piece in workload.blocks[0] if piece.head.startswith("arrive"))
    body = Statements(rng, deployment).session(closed="closed" in arrive)
    stages = [declare.stage(stage) for stage in deployment.stages]
    pools = [declare.pool(pool) for pool in deployment.pools]
    items = [*stages, *pools] if rng.random() < 0.5 else [*pools, *stages]
    if _any_piece(body, lambda piece: piece.head.startswith("run ") and ", " in piece.head.split("(")[0]):
        items.append(Piece(f"share {rng.choice(('maxmin', 'bottleneck'))}"))
    sides: Block = (workload, Piece("session", (body,)))
    if rng.random() < 0.08 and not _any_piece(body, lambda piece: piece.head in {"turn", "end"}):
        sides = _two_sided(workload, body)
    run = declare.run(open_arrivals="renewal" in arrive)
    return FuzzProgram((*declare.lets_and_functions(), *items, *sides, run), declare.trace())


def _two_sided(workload: Piece, body: Block) -> Block:
    """The same session as a server that the workload's session requests (R-A-099)."""
    client = Piece("session", ((Piece("request"), Piece("end")),))
    return (Piece(workload.head, ((*workload.blocks[0], client),)), Piece("server", (body,)))


def _any_piece(block: Block, test: Callable[[Piece], bool]) -> bool:
    return any(test(piece) or any(_any_piece(inner, test) for inner in piece.blocks) for piece in block)
