"""What passes between scheduler and worker: the step that was formed, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
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
class DecodesInBulk:
    """Running requests with a share of one token each that no share is written down for.

    ``context`` is the sum of their computed tokens before the step, ``slots`` that of their blocks' slots.
    ``rows`` lists them in the order of scheduling, while the step is the latest.
    """

    count: int
    context: int
    slots: int
    rows: Callable[[], Iterable[Request]]


@dataclass(slots=True)
class SchedulerOutput:
    """A formed step. Shares are in scheduling order: the running ones, then the admissions (S-059).

    ``hits`` holds [local, external] hit tokens of every admission, loads just begun included. ``finished``
    are the ids that ended since the last step; ``num_spec_tokens`` the drafts each request gets next;
    ``num_free_blocks_before`` what the step started from. ``recomputed`` requests ended while it was formed,
    to be started elsewhere (V-039). ``decodes`` have shares beside those of ``scheduled``.
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
    decodes: DecodesInBulk | None = None

    @property
    def num_scheduled(self) -> int:
        """How many requests have a share, those without a written one included."""
        return len(self.scheduled) + (0 if self.decodes is None else self.decodes.count)

    @classmethod
    def of_decodes(
        cls, decodes: DecodesInBulk, num_free_blocks: int, finished_req_ids: set[str]
    ) -> SchedulerOutput:
        """A step of decodes alone, formed when ``num_free_blocks`` were free."""
        return cls({}, decodes.count, [], finished_req_ids, {}, [], [], [], 0, num_free_blocks, [], decodes)

    def batch(self) -> StepBatch:
        """The step as whoever prices or lays it out sees it; asked before another one is formed."""
        counted = [
            BatchRow(
                request=request.request_id,
                query=1,
                computed=request.num_computed_tokens - 1,
                prompt=request.num_prompt_tokens,
                drafts=0,
                decode=True,
            )
            for request in (self.decodes.rows() if self.decodes is not None else ())
        ]
        written = [
            BatchRow(
                request=request_id,
                query=share.num_tokens,
                computed=share.num_computed_tokens,
                prompt=share.request.num_prompt_tokens,
                drafts=share.num_spec_tokens,
                decode=share.is_decode,
            )
            for request_id, share in self.scheduled.items()
        ]
        return StepBatch.of((*counted, *written))


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
