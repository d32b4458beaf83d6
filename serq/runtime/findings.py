"""What a run made look unintended: engines that never ran, sessions that wait for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from serq.runtime.engine import Engine
from serq.runtime.pool import Pool
from serq.runtime.session import Session
from serq.runtime.stage import Stage
from serq.runtime.world import World
from serq.source import Diagnostic


def findings(world: World, stages: Iterable[Stage]) -> Iterator[Diagnostic]:
    """The warnings of a run that is over."""
    for stage in stages:
        if isinstance(stage, Engine) and stage.number and not stage.iterations:
            yield Diagnostic(
                "engine-never-ran",
                f"{stage.number} run(s) wait at `{stage.name}`, which never had an iteration",
                owner=f"stage `{stage.name}`",
                severity="warning",
                help="its budget gives no tokens, or the memory that its runs grow into is full",
            )
    if world.clock.next_time() == inf:
        yield from (_waits_for_ever(pool) for pool in world.pools if _waiting(pool))


def _waiting(pool: Pool) -> list[Session]:
    """Sessions that wait for units of ``pool``, those that grow first."""
    growing = [grower.session for grower in pool.growers]
    return [*growing, *(hold.session for hold in pool.queue.holds())]


def _waits_for_ever(pool: Pool) -> Diagnostic:
    """Nobody will ever give back what is waited for: no event is left (R-A-060)."""
    sessions = _waiting(pool)
    return Diagnostic(
        "waits-for-ever",
        f"{len(sessions)} session(s) wait for `{pool.name}`, the first is session {sessions[0].number}, "
        "and nothing can happen any more",
        owner=f"pool `{pool.name}`",
        severity="warning",
        help=f"{pool.used:.10g} of {pool.capacity:.10g} units are taken; who holds them waits too, or a "
        "wish has grown beyond the capacity",
    )
