"""What the language reads of a request that a session sent. Times are NaN until they come."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from serq.runtime.open_run.request import OpenRequest
    from serq.runtime.serving.sent_request import SentRequest

    SeenRequest: TypeAlias = SentRequest | OpenRequest


def sent(request: SeenRequest) -> float:
    """When it was sent."""
    return request.sent_time


def first_token(request: SeenRequest) -> float:
    """When its first token came."""
    return request.first_time


def last_token(request: SeenRequest) -> float:
    """When its latest token came."""
    return request.last_time


def ttft(request: SeenRequest) -> float:
    """From sending to the first token."""
    return request.first_time - request.sent_time


def e2e(request: SeenRequest) -> float:
    """From sending to the end."""
    return request.end_time - request.sent_time


def queue_time(request: SeenRequest) -> float:
    """From the engine's taking it in to its first admission, as vLLM measures it."""
    return request.scheduled_time - request.queued_time


def kv_ready(request: SeenRequest) -> float:
    """When the KV that it fetches had arrived."""
    return request.ready_time


def tpot(request: SeenRequest) -> float:
    """Time per output token after the first."""
    count = request.num_output_tokens
    return (request.last_time - request.first_time) / (count - 1) if count > 1 else nan


def itl(request: SeenRequest) -> float:
    """Mean gap between steps that brought tokens; with drafts a step may bring several."""
    count = request.deliveries
    return (request.last_time - request.first_time) / (count - 1) if count > 1 else nan


def prompt_tokens(request: SeenRequest) -> float:
    """Length of the prompt."""
    return float(request.num_prompt_tokens)


def cached_tokens(request: SeenRequest) -> float:
    """Prompt tokens found in the engine's own cache when it was first let in."""
    return float(request.cached or 0)


def fetched_tokens(request: SeenRequest) -> float:
    """Prompt tokens fetched from another engine, or that were to be."""
    return float(request.fetched)


def generated(request: SeenRequest) -> float:
    """Tokens that came back."""
    return float(request.num_output_tokens)


def preempted(request: SeenRequest) -> float:
    """How often it was preempted."""
    return float(request.num_preemptions)


def stopped(request: SeenRequest) -> float:
    """1 if the model ended it: by a stop token or by repeating itself."""
    return float(request.reason in ("stop", "repetition"))


def aborted(request: SeenRequest) -> float:
    """1 if its client gave up."""
    return float(request.reason == "abort")


def failed(request: SeenRequest) -> float:
    """1 if its KV could not be loaded."""
    return float(request.reason == "error")


def recomputed(request: SeenRequest) -> float:
    """1 if it was given back to be started elsewhere."""
    return float(request.reason == "recomputed")


def rejected(request: SeenRequest) -> float:
    """1 if its prompt did not fit `max_model_len`."""
    return float(request.reason == "rejected")


READS: Final[dict[str, Callable[[SeenRequest], float]]] = {
    f"request_{read.__name__}": read for read in (
        sent, first_token, last_token, ttft, e2e, queue_time, kv_ready, tpot, itl, prompt_tokens,
        cached_tokens, fetched_tokens, generated, preempted, stopped, aborted, failed, recomputed, rejected,
    )
}  # fmt: skip
"""The name in generated code -> what it reads: one for every metric of a request."""
