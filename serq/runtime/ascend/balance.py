"""Balance scheduling: no data-parallel rank admits while one of them is full (V-058, V-059)."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.scheduler import VllmScheduler


class BalanceScheduler(VllmScheduler):
    """A rank that knows how many requests ran on every rank at the end of the last step.

    ``running_by_rank`` is set by whoever gathers it, after every step of the group and also for ranks that
    had nothing to do.
    """

    def __init__(self, config: EngineConfig, connector: KVConnector | None = None, *, ranks: int = 1) -> None:
        super().__init__(config, connector)
        self.running_by_rank: Sequence[int] = [0] * ranks

    def has_slot(self) -> bool:
        """Not while some rank is exactly full."""
        return max(self.running_by_rank) != self.config.max_num_seqs and super().has_slot()


def gather_running(ranks: Sequence[BalanceScheduler]) -> bool:
    """Tell every rank how many requests run on each, once all have ended their step (V-058).

    Whether that is news.
    """
    counts = [len(rank.running) for rank in ranks]
    changed = any(rank.running_by_rank != counts for rank in ranks)
    for rank in ranks:
        rank.running_by_rank = counts
    return changed
