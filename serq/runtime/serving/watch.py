"""Requests that will never be served are found and named, instead of waiting in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from serq.errors import RunError
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.stage import Stage
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.request import Request

_FUTILE_PREEMPTIONS: Final = 100
_NAMED: Final = 3


def check_fits(request: Request, manager: KVCacheManager, where: Stage) -> None:
    """Raise RunError for a prompt that needs more blocks than the engine has (S-086, S-089)."""
    usable = manager.config.num_gpu_blocks - 1
    needed = manager.remaining_blocks(request)
    if needed > usable:
        raise RunError(
            f"the prompt of request {request.request_id} ({request.num_prompt_tokens} tokens) needs {needed} "
            f"blocks, and `{where!r}` has {usable} to use: it can never be admitted",
            code="request-never-fits",
        )


def note_preemption(sent: SentRequest | None, where: str) -> None:
    """Count a preemption. Raises RunError at the hundredth in which a request got no further than before."""
    if sent is None:
        return
    position = max(sent.best_position, sent.request.num_tokens)
    if sent.futile_preemptions and position <= sent.position_at_preemption:
        sent.futile_preemptions += 1
    else:
        sent.futile_preemptions = 1
    sent.position_at_preemption = position
    if sent.futile_preemptions >= _FUTILE_PREEMPTIONS:
        raise RunError(
            f"request {sent.request.request_id} was preempted {_FUTILE_PREEMPTIONS} times at `{where}` "
            f"without getting past token {position}: this goes on for ever (a livelock)",
            session=sent.session.number,
            code="livelock",
        )


def stalled(where: str, unfinished: Sequence[SentRequest]) -> RunError:
    """The error of an engine that can schedule nothing although requests remain."""
    named = ", ".join(sent.request.request_id for sent in unfinished[:_NAMED])
    more = f" and {len(unfinished) - _NAMED} more" if len(unfinished) > _NAMED else ""
    return RunError(
        f"`{where}` can schedule none of its requests, and nothing else will happen (a stall): {named}{more}",
        session=unfinished[0].session.number if unfinished else None,
        code="stall",
    )
