"""What a run made look unintended: engines that never ran, sessions that wait for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from serq.runtime.engine import Engine
from serq.runtime.pool import Pool
from serq.runtime.session import Session
from serq.runtime.stage import Stage
from serq.runtime.workload import Workload
from serq.runtime.world import World
from serq.source import Diagnostic

_LONG_TAIL: Final = 0.1
"""The share of the time after warm-up from which on an idle end is worth a warning."""


def findings(
    world: World, stages: Iterable[Stage], workload: Workload, warmup: float
) -> Iterator[Diagnostic]:
    """The warnings of a run that is over."""
    if workload.exhausted and not world.live:
        yield from _idle_tail(workload.arrivals, world.idle_since, world.clock.now, warmup)
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


def _idle_tail(arrivals: int, since: float, end: float, warmup: float) -> Iterator[Diagnostic]:
    """Rates and time averages count the time after the last session of a trace (`arrive trace`)."""
    since = max(since, warmup)
    share = (end - since) / (end - warmup) if end > warmup else 0.0
    if share >= _LONG_TAIL:
        yield Diagnostic(
            "idle-tail",
            f"the trace ended and its last session with it at {since:.6g}: the last {100 * share:.1f} % of "
            "the time are idle, and rates and averages over time count them",
            owner="run",
            severity="warning",
            help=f"end the run there: `--horizon {since:.6g}`, or with its sessions: `--arrivals {arrivals}`",
        )


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
