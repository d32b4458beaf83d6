"""DyntraLB's plan: which KV loads the data-parallel ranks should take in and pause (V-056)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_ROUNDS = 1000
STEP_COST = 20000.0
BLOCK_COST = 19.2


@dataclass(slots=True)
class RankLoad:
    """One rank's requests by their KV blocks, in order: those running and those that could run."""

    running: list[int]
    waiting: list[int]
    admitted: list[int] = field(default_factory=list)
    paused: list[int] = field(default_factory=list)

    @classmethod
    def of_slots(cls, blocks: Sequence[int], num_running: int) -> RankLoad:
        """A rank as it is published: ``num_running`` running requests, then waiting ones, then zeros."""
        slots = [(count, slot < num_running) for slot, count in enumerate(blocks) if count > 0]
        return cls([count for count, runs in slots if runs], [count for count, runs in slots if not runs])

    @property
    def blocks(self) -> int:
        """The rank's load: KV blocks of its running requests."""
        return sum(self.running)

    def fill(self, max_num_seqs: int) -> None:
        """Let waiting requests run while there are slots."""
        while self.waiting and len(self.running) < max_num_seqs:
            self.admitted.append(self.waiting.pop(0))
            self.running.append(self.admitted[-1])

    def swap(self, running: int, waiting: int) -> None:
        """Let the ``waiting``-th waiting request run in the place of the ``running``-th running one."""
        self.paused.append(self.running[running])
        self.admitted.append(self.waiting[waiting])
        self.running[running], self.waiting[waiting] = self.admitted[-1], self.paused[-1]

    def pause(self, running: int) -> None:
        """Let the ``running``-th running request wait."""
        self.paused.append(self.running.pop(running))
        self.waiting.append(self.paused[-1])


@dataclass(frozen=True, slots=True)
class BalanceStep:
    """One rank's part of a plan, as block counts: whom to pause, whom to admit, or to admit nobody."""

    out_blocks: tuple[int, ...]
    in_blocks: tuple[int, ...]

    @property
    def freeze(self) -> bool:
        """Whether nobody is to be admitted."""
        return not self.in_blocks


def balance_plan(
    ranks: Sequence[RankLoad], *, max_num_seqs: int, bubble_threshold: float
) -> list[BalanceStep]:
    """Even out the loads of the ranks, which are changed, and say what each one has to do (V-056).

    The bubble is how far the most loaded rank is above the mean, as a share of the mean when the threshold is
    below 1. While it reaches the threshold: the least loaded rank swaps up, the most loaded one swaps down;
    when neither can, the most loaded one pauses a request, if that promises a higher throughput.
    """
    for rank in ranks:
        rank.fill(max_num_seqs)
    for _ in range(MOST_ROUNDS):
        if _bubble(ranks, relative=bubble_threshold < 1) < bubble_threshold:
            break
        up = _swap_toward_mean(ranks, min(ranks, key=lambda rank: rank.blocks), raising=True)
        down = _swap_toward_mean(ranks, max(ranks, key=lambda rank: rank.blocks), raising=False)
        if not (up or down or _pause_if_faster(ranks)):
            break
    return [_net(rank) for rank in ranks]


def _bubble(ranks: Sequence[RankLoad], relative: bool) -> float:
    loads = [rank.blocks for rank in ranks]
    mean = sum(loads) / len(loads)
    bubble = max(loads) - mean
    return bubble / mean if relative and mean else bubble


def _swap_toward_mean(ranks: Sequence[RankLoad], rank: RankLoad, raising: bool) -> bool:
    """Make the swap that brings ``rank`` closest to the mean, which moves along; False without one."""
    load = rank.blocks
    mean = sum(other.blocks for other in ranks) / len(ranks)
    nearest, best = abs(load - mean), None
    for running, running_blocks in enumerate(rank.running):
        for waiting, waiting_blocks in enumerate(rank.waiting):
            change = waiting_blocks - running_blocks
            if change == 0 or (change > 0) is not raising:
                continue
            distance = abs(load + change - (mean + change / len(ranks)))
            if distance < nearest:
                nearest, best = distance, (running, waiting)
    if best is None:
        return False
    rank.swap(*best)
    return True


def _pause_if_faster(ranks: Sequence[RankLoad]) -> bool:
    """Pause the request of the most loaded rank that promises the highest throughput, if that is higher."""
    most = max(ranks, key=lambda rank: rank.blocks)
    others = max((rank.blocks for rank in ranks if rank is not most), default=0)
    requests = sum(len(rank.running) for rank in ranks)
    highest, best = _throughput(requests, most.blocks), None
    for running, blocks in enumerate(most.running):
        throughput = _throughput(requests - 1, max(others, most.blocks - blocks))
        if throughput > highest:
            highest, best = throughput, running
    if best is None:
        return False
    most.pause(best)
    return True


def _throughput(requests: int, most_blocks: int) -> float:
    return requests / (STEP_COST + BLOCK_COST * most_blocks)


def _net(rank: RankLoad) -> BalanceStep:
    """What remains of a rank's changes when equal block counts that came and went cancel."""
    admitted, paused = list(rank.admitted), []
    for blocks in rank.paused:
        if blocks in admitted:
            admitted.remove(blocks)
        else:
            paused.append(blocks)
    return BalanceStep(tuple(paused), tuple(admitted))
