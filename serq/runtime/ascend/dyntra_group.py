"""When DyntraLB makes a plan, and for whom: the part that all ranks of a group do together (V-050, V-051)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from serq.runtime.ascend.balance_plan import RankLoad, balance_plan
from serq.runtime.ascend.dyntra import DyntraLBPolicy


@dataclass(frozen=True, slots=True)
class DyntraLBConfig:
    """The options of ``dyntra_lb_config`` (V-050).

    Plans are made in steps ``start_step`` to ``end_step - 1`` (-1: without end), in mode ``dynamic`` only
    while switched on: a request of at least ``long_req_block_threshold`` blocks that was not there before
    switches on, ``dynamic_max_step`` active steps without another one switch off.
    """

    mode: Literal["dynamic", "static"] = "dynamic"
    start_step: int = 250
    end_step: int = -1
    bubble_threshold: float = 5.0
    long_req_block_threshold: int = 700
    dynamic_max_step: int = 256


class DyntraLBGroup:
    """The ranks of one data-parallel group; :meth:`after_iteration` runs once all ended their step."""

    def __init__(self, ranks: Sequence[DyntraLBPolicy], config: DyntraLBConfig) -> None:
        self._ranks = ranks
        self._config = config
        self._step = 0
        self._active_steps_left = 0
        self._known_long: set[str] = set()

    @property
    def active(self) -> bool:
        """Whether a plan is made after the step that just ended."""
        config = self._config
        ended = config.end_step >= 0 and self._step >= config.end_step
        if self._step < config.start_step or ended:
            return False
        return config.mode == "static" or self._active_steps_left > 0

    def after_iteration(self) -> bool:
        """Count a step that was not idle and, if active, give every rank a plan for its next one.

        Whether some rank has a plan that lets somebody in.
        """
        if self._saw_new_long_request():
            self._active_steps_left = self._config.dynamic_max_step
        active = self.active
        for rank in self._ranks:
            rank.prefetches = active
        if active:
            self._plan()
            self._active_steps_left = max(0, self._active_steps_left - 1)
        self._step += 1
        return any(rank.plan is not None and not rank.plan.freeze for rank in self._ranks)

    def _plan(self) -> None:
        slots = self._ranks[0].config.max_num_seqs
        loads = [_published(rank.prepare(), 2 * slots) for rank in self._ranks]
        threshold = self._config.bubble_threshold
        plans = balance_plan(loads, max_num_seqs=slots, bubble_threshold=threshold)
        for rank, plan in zip(self._ranks, plans, strict=True):
            rank.plan = plan

    def _saw_new_long_request(self) -> bool:
        if self._config.mode == "static":
            return False
        long = {
            request.request_id
            for rank in self._ranks
            for request in rank.running
            if rank.load(request) >= self._config.long_req_block_threshold
        }
        seen_before, self._known_long = self._known_long, long
        return not long <= seen_before


def _published(load: RankLoad, places: int) -> RankLoad:
    """What of a rank's load reaches the others: at most ``places`` requests, the running ones first."""
    running = load.running[:places]
    return RankLoad(running, load.waiting[: places - len(running)])
