"""One request as the engine sees it: its tokens so far, its counters, and the rule that ends it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.tokens import OutputScript, Piece, PrefixHasher, Source, TokenSequence

Hasher = PrefixHasher | RunHasher
"""What tells prefixes apart: block by block, or in runs of blocks."""

Time = float
"""An instant: seconds in a simulation, integer microseconds in a replay; only ever compared."""


class RequestStatus(enum.IntEnum):
    """Where a request is; everything after PREEMPTED is an end."""

    WAITING = enum.auto()
    WAITING_FOR_REMOTE_KVS = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()
    FINISHED_ERROR = enum.auto()
    FINISHED_REPETITION = enum.auto()
    FINISHED_RECOMPUTED = enum.auto()
    """Given back unfinished, to be started elsewhere (V-039)."""

    @property
    def is_finished(self) -> bool:
        """Whether the request has ended."""
        return self > RequestStatus.PREEMPTED


class StopRule(NamedTuple):
    """When generation ends, apart from the model saying so and from ``max_model_len`` (S-099).

    Lengths in output tokens. ``repetition_count`` equal tokens in a row end it too; None: they do not.
    """

    max_tokens: int
    min_tokens: int = 0
    repetition_count: int | None = None


class Request:
    """A request from its arrival to its end.

    ``num_tokens`` counts prompt and appended outputs (n), ``num_computed_tokens`` those computed or
    scheduled to be (c), ``num_spec_tokens`` attached drafts (d), ``num_output_placeholders`` outputs
    awaited under async scheduling (h), ``num_in_flight_tokens`` scheduled and not yet processed (f).
    ``admission`` grows along ``running``.
    """

    __slots__ = (
        "_keys",
        "_repeats",
        "admission",
        "arrival_time",
        "block_hashes",
        "drop_stale_output",
        "is_prefill_chunk",
        "kv_transfer_params",
        "lane",
        "last_sched_seq",
        "num_computed_tokens",
        "num_in_flight_tokens",
        "num_output_placeholders",
        "num_output_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "num_spec_tokens",
        "num_stale_output_tokens",
        "num_tokens",
        "output",
        "priority",
        "request_id",
        "shared_prefix_boundary",
        "skip_reading_prefix_cache",
        "status",
        "stop_rule",
        "tokens",
        "waits_since",
    )

    def __init__(
        self,
        request_id: str,
        prompt: TokenSequence | Iterable[Piece],
        stop_rule: StopRule,
        output: OutputScript,
        *,
        arrival_time: Time = 0,
        priority: int = 0,
        skip_reading_prefix_cache: bool = False,
        kv_transfer_params: Mapping[str, Any] | None = None,
        hasher: Hasher | None = None,
    ) -> None:
        self.request_id = request_id
        self.arrival_time = arrival_time
        self.priority = priority
        self.stop_rule = stop_rule
        self.output = output
        self.skip_reading_prefix_cache = skip_reading_prefix_cache
        self.kv_transfer_params: Mapping[str, Any] = kv_transfer_params or {}
        self.tokens = prompt if isinstance(prompt, TokenSequence) else TokenSequence(prompt)
        self.num_prompt_tokens = self.num_tokens = self.tokens.length
        self.num_output_tokens = 0
        self._keys = hasher.keys_of(self.tokens) if hasher is not None else None
        self.block_hashes: Any = self._keys.keys if self._keys is not None else []
        self._repeats: tuple[tuple[Source, int] | None, int] = (None, 0)
        self.status = RequestStatus.WAITING
        self.num_computed_tokens = 0
        self.num_in_flight_tokens = 0
        self.num_output_placeholders = 0
        self.num_stale_output_tokens = 0
        self.drop_stale_output = False
        self.num_spec_tokens = 0
        self.is_prefill_chunk = False
        self.shared_prefix_boundary = 0
        self.num_preemptions = 0
        self.last_sched_seq = 0
        self.admission = 0
        self.lane = ""
        """Where it waits (:meth:`RequestQueue.lane_of`, `loading`, `loaded`); empty: it does not wait."""
        self.waits_since: Time = 0
        """Since when it waits there."""

    def __repr__(self) -> str:
        return f"Request({self.request_id}, {self.status.name}, {self.num_computed_tokens}/{self.num_tokens})"

    @property
    def order(self) -> tuple[int, Time, str]:
        """What the priority policy orders by, smaller first (S-011)."""
        return self.priority, self.arrival_time, self.request_id

    @property
    def is_finished(self) -> bool:
        """Whether the request has ended."""
        return self.status > RequestStatus.PREEMPTED

    def append_output_token(self) -> None:
        """Append the next token the model says; this is where an output becomes known (S-098)."""
        token = self.output.token(self.num_output_tokens)
        self.tokens.append(*token)
        self.num_output_tokens += 1
        self.num_tokens += 1
        if self.stop_rule.repetition_count is not None:
            last, times = self._repeats
            self._repeats = (token, times + 1 if token == last else 1)
        if self._keys is not None and self.num_tokens % self._keys.block_size == 0:
            self._keys.extend()

    def append_output_tokens(self, count: int) -> None:
        """Append the next ``count`` tokens, none of which ends the request."""
        self.output.append_to(self.tokens, self.num_output_tokens, count)
        self.num_output_tokens += count
        self.num_tokens += count
        if self._keys is not None:
            self._keys.extend()

    def foreseen_end(self, max_model_len: int) -> tuple[int, bool] | None:
        """(output tokens at which the request ends, whether its length alone says so); None: not known.

        What the model will say is looked at, so nobody may ask but who counts tokens ahead of their time.
        """
        rule, output = self.stop_rule, self.output
        by_length = min(rule.max_tokens, max_model_len - self.num_prompt_tokens)
        if rule.min_tokens > by_length or rule.repetition_count is not None or output.repeat_at is not None:
            return None
        end = output.end_at
        if end is None or end + 1 < rule.min_tokens or end + 1 > by_length:
            return by_length, True
        return end + 1, end + 1 == by_length

    def stop_status(self, max_model_len: int) -> RequestStatus | None:
        """How the token just appended ends the request, or None if it does not (S-099)."""
        rule = self.stop_rule
        if self.num_output_tokens < rule.min_tokens:
            return None
        if self.output.end_at == self.num_output_tokens - 1:
            return RequestStatus.FINISHED_STOPPED
        if self.num_tokens >= max_model_len or self.num_output_tokens >= rule.max_tokens:
            return RequestStatus.FINISHED_LENGTH_CAPPED
        count = rule.repetition_count
        if count is not None and count > 1 and self._repeats[1] >= count:
            return RequestStatus.FINISHED_REPETITION
        return None
