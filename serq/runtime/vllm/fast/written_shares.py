"""Shares of counted requests that are written into steps in flight after all: somebody ends, or leaves."""

from __future__ import annotations

from serq.runtime.vllm.request import Request
from serq.runtime.vllm.scheduler_output import ScheduledRequest, SchedulerOutput


def write_share(step: SchedulerOutput, request: Request, computed: int) -> None:
    """Write down the one token of ``request`` in ``step``, computed on top of ``computed`` others."""
    step.scheduled.setdefault(
        request.request_id, ScheduledRequest(request, 1, "running", computed, 0, True, samples=True)
    )


def sort_shares(step: SchedulerOutput) -> None:
    """Put the shares of ``step`` into the order of scheduling, which is that of admission."""
    shares = step.scheduled
    if len(shares) > 1:
        step.scheduled = dict(sorted(shares.items(), key=lambda entry: entry[1].request.admission))
