"""What passes between scheduler and worker: the step that was formed, and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from serq.kernels.step_batch import BatchRow, StepBatch
from serq.runtime.vllm.request import Request, RequestStatus

ShareKind = Literal["new", "resumed", "running"]


@dataclass(slots=True)
class ScheduledRequest:
    """One request's share of a step.

    ``num_tokens`` are computed on top of ``num_computed_tokens``; the last ``num_spec_tokens`` of them are
    drafts. ``samples``: the share reaches the end of what is known, so the model says something.
    """

    request: Request
    num_tokens: int
    kind: ShareKind
    num_computed_tokens: int
    num_spec_tokens: int
    is_decode: bool
    samples: bool = False


@dataclass(slots=True)
class SchedulerOutput:
    """A formed step. Shares are in scheduling order: the running ones, then the admissions (S-059).

    ``hits`` holds [local, external] hit tokens of every admission, loads just begun included. ``finished``
    are the ids that ended since the last step; ``num_spec_tokens`` the drafts each request gets next;
    ``num_free_blocks_before`` what the step started from. ``recomputed`` requests ended while it was formed,
    to be started elsewhere (V-039).
    """

    scheduled: dict[str, ScheduledRequest]
    total_num_scheduled_tokens: int
    preempted_req_ids: list[str]
    finished_req_ids: set[str]
    hits: dict[str, tuple[int, int]]
    num_common_prefix_blocks: list[int]
    block_copies: list[tuple[int, int]]
    new_block_ids_to_zero: list[int]
    num_spec_tokens: int
    num_free_blocks_before: int
    recomputed: list[Request] = field(default_factory=list)

    def batch(self) -> StepBatch:
        """The step as whoever prices or lays it out sees it."""
        return StepBatch.of(
            tuple(
                BatchRow(
                    request=request_id,
                    query=share.num_tokens,
                    computed=share.num_computed_tokens,
                    prompt=share.request.num_prompt_tokens,
                    drafts=share.num_spec_tokens,
                    decode=share.is_decode,
                )
                for request_id, share in self.scheduled.items()
            )
        )


@dataclass(slots=True)
class ModelOutput:
    """What a worker hands back for a step.

    ``num_sampled``: tokens per request, accepted drafts and one more, 0 for a partial prefill.
    ``num_drafts``: new drafts per request (synchronous scheduling only). The rest are KV transfers that
    ended by now and blocks whose load failed (S-133 to S-135).
    """

    num_sampled: Mapping[str, int]
    num_drafts: Mapping[str, int] = field(default_factory=dict)
    finished_recving: Collection[str] = ()
    finished_sending: Collection[str] = ()
    invalid_block_ids: Collection[int] = ()

    @property
    def reports_transfers(self) -> bool:
        """Whether a KV transfer ended."""
        return bool(self.finished_recving or self.finished_sending)


@dataclass(slots=True)
class RequestOutput:
    """What a request got out of a step: its new tokens, and how it ended if it did."""

    request: Request
    num_new_tokens: int
    finished: RequestStatus | None = None
