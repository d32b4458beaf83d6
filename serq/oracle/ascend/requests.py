"""The requests of a recording, token for token."""

from __future__ import annotations

from typing import Any

from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.tokens import OutputScript, Piece, PrefixHasher

Document = dict[str, Any]
STOP_TOKEN = 7


def prompt_tokens(line: Document, place: int) -> list[int]:
    """The token ids of the request at ``place`` of the recording: its group's prefix, then its own."""
    group = line.get("prefix_group")
    shared = 0 if group is None else line.get("prefix_len", 0)
    prefix = [(10 + (group or 0) * 3001 + index) % 400 + 11 for index in range(shared)]
    start = 5 + place * 38
    return prefix + [(start + 3 * index) % 397 + 11 for index in range(line["prompt"] - shared)]


def output_token(number: int) -> int:
    """The id of the ``number``-th output token, unless it is the stop token."""
    return 20 + number % 50


def create_request(line: Document, place: int, hasher: PrefixHasher | None) -> Request:
    """The request of one line: it ends at ``decode`` tokens, by the stop token or by its length."""
    stops = line.get("finish", "length") == "stop"
    decode = line["decode"]
    pieces: list[Piece] = [("token", token, 1) for token in prompt_tokens(line, place)]
    return Request(
        line["id"],
        pieces,
        StopRule(max_tokens=decode + (64 if stops else 0)),
        OutputScript("output", end_at=decode - 1 if stops else None, end_token="stop"),
        arrival_time=line["t_us"] / 1e6,
        priority=line.get("priority", 0),
        hasher=hasher,
    )
