"""What the model says in a step: one token a sampling row, and as many drafts as are accepted (S-097)."""

from __future__ import annotations

from collections.abc import Mapping

from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.scheduler_output import ModelOutput, ScheduledRequest, SchedulerOutput


def model_output(
    step: SchedulerOutput,
    config: EngineConfig,
    acceptance: tuple[float, ...],
    sent: Mapping[str, SentRequest],
) -> ModelOutput:
    """The output of ``step``. Draft after draft is accepted with its own chance, drawn by the request."""
    if config.speculative is None:
        return ModelOutput({request_id: int(share.samples) for request_id, share in step.scheduled.items()})
    sampled = {
        request_id: 1 + _accepted(share, sent.get(request_id), acceptance) if share.samples else 0
        for request_id, share in step.scheduled.items()
    }
    drafts = {} if config.async_scheduling else {
        request_id: step.num_spec_tokens if count else 0 for request_id, count in sampled.items()
    }  # fmt: skip
    return ModelOutput(sampled, drafts)


def _accepted(share: ScheduledRequest, sent: SentRequest | None, acceptance: tuple[float, ...]) -> int:
    """Accepted drafts: those of an admission are padding and never are (S-107)."""
    if sent is None or share.kind != "running" or not share.num_spec_tokens:
        return 0
    chances = sent.acceptance or acceptance
    count = 0
    for chance in chances[: share.num_spec_tokens]:
        if not sent.accepts(count, chance):
            break
        count += 1
    return count
