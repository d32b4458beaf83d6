"""What an engine of an open run notes of its steps, in batches: a row of a table is dear one by one."""

from __future__ import annotations

from typing import Final

from serq.runtime.open_run.counts import DecodeCounts
from serq.runtime.open_run.figures import StageFigures
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.request_records import add_all
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.vllm.scheduler_base import Outcome

Step = tuple[float, float, float, int, int, int, int, int, int, int, list[OpenRequest]]
"""A step in flight: its end, when it was formed, its start; tokens, requests, and tokens of prompts; running,
waiting and free blocks when it was formed; how many gave way to it; and whose prompts it completes."""

NOBODY: Final[list[OpenRequest]] = []
"""The prompts that a step completes which completes none."""

Done = tuple[float, float, int, OpenRequest]
"""A request that has ended: when, since when that was awaited, the rank of the stage (these two order what
happens at one instant).
"""


class Notes(DecodeCounts):
    """Notes for the log and the figures of ``stage``."""

    def __init__(self, stage: VllmEngine) -> None:
        config = stage.resolved.config
        super().__init__(config.cache_block_size)
        self.stage = stage
        self.log, self.table, self.queue = stage.log, stage.log.steps, stage.log.queue
        self.usable = self.free = config.num_gpu_blocks - 1
        """Blocks there are, and those that nobody holds."""
        self.since = self.block_time = 0.0
        """The integral of blocks in use, up to which instant."""
        self.processed = 0
        """Steps that have ended: the number of the next to end."""
        self.last_end = 0.0
        """When the last of them did."""
        self.rows: list[Step] = []
        """Steps that have ended and are not in the table."""
        self.stays: list[tuple[int, str, float, float, Outcome, int, int]] = []
        """Stays that are over and not in the table: row of the request, lane, from, to, how it ended, step,
        preemptions before.
        """
        self.figures = StageFigures()
        self.prompt_tokens = self.cached_tokens = self.preemptions = 0
        """Since warm-up: prompt tokens of first admissions, those of them that were cached, who gave way."""
        self.done: list[Done] = []
        """Who has ended, and whose session does not know."""

    def write_ended(self) -> None:
        """Write the steps that have ended into the table."""
        rows, table = self.rows, self.table
        if rows:
            self.rows = []
            ends, formed, starts, tokens, scheduled, prefilled, running, waiting, free, preempted, _ = zip(
                *rows, strict=True
            )
            add_all(table.end, ends)
            add_all(table.formed, formed)
            add_all(table.start, starts)
            add_all(table.tokens, tokens)
            add_all(table.scheduled, scheduled)
            add_all(table.prefill_tokens, prefilled)
            add_all(table.running, running)
            add_all(table.waiting, waiting)
            add_all(table.free_blocks, free)
            add_all(table.preempted, preempted)
            self.preemptions += sum(preempted)
        self._write_stays()

    def _write_stays(self) -> None:
        """Write down who waited and was admitted."""
        stays, table = self.stays, self.queue.stays
        if stays:
            self.stays = []
            requests, lanes, entered, left, outcomes, steps, preemptions = zip(*stays, strict=True)
            add_all(table.request, requests)
            table.lane.extend(lanes)
            add_all(table.entered, entered)
            add_all(table.left, left)
            table.outcome.extend(outcomes)
            add_all(table.step, steps)
            add_all(table.preemptions, preemptions)

    def account(self, now: float) -> None:
        """Add the time since the last step end to the integral of blocks in use."""
        if now != self.since:
            self.block_time += (self.usable - self.free) * (now - self.since)
            self.since = now

    def reset(self, now: float) -> None:
        """Warm-up is over, and the log has forgotten what it measured (R-B-091)."""
        self.since, self.block_time, self.preemptions = now, 0.0, 0
        self.prompt_tokens = self.cached_tokens = 0
        self.figures.reset(now)
