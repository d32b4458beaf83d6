"""Which token stands at which position: two sequences are equal exactly where their origins are.

A position's origin is (shared prefix group, position), (request's own prompt, position) or (request's
output, index). The three scripted tokens (end of sequence, stop token, repeated token) are the same for
every request, as they are for a real model.
"""

from __future__ import annotations

from collections.abc import Iterable

from serq.oracle.capture.scenario import ArrivingRequest

EOS_TOKEN, STOP_TOKEN, REPEATED_TOKEN, DRAFT_TOKEN = range(4)
_FIRST_ORDINARY = 16
_ORIGINS = 3
_SHARED, _PROMPT, _OUTPUT = range(_ORIGINS)
_POSITION_BITS = 32


def _ordinary(origin: int, owner: int, position: int) -> int:
    return _FIRST_ORDINARY + ((owner * _ORIGINS + origin) << _POSITION_BITS) + position


class TokenScript:
    """The prompts and outputs of all requests of a scenario."""

    def __init__(self, requests: Iterable[ArrivingRequest]) -> None:
        self._requests = {request.id: (index, request) for index, request in enumerate(requests)}

    def prompt(self, request_id: str) -> list[int]:
        """The prompt's tokens."""
        _, request = self._requests[request_id]
        return [self.token(request_id, position) for position in range(request.prompt)]

    def token(self, request_id: str, position: int) -> int:
        """The token at ``position`` of the request's prompt and outputs."""
        owner, request = self._requests[request_id]
        if position >= request.prompt:
            return self.output(request_id, position - request.prompt)
        if request.continues is not None and position < request.continues.len:
            return self.token(request.continues.id, position)
        if request.prefix_group is not None and position < request.prefix_len:
            return _ordinary(_SHARED, request.prefix_group, position)
        return _ordinary(_PROMPT, owner, position)

    def output(self, request_id: str, index: int) -> int:
        """The ``index``-th output token, were it sampled."""
        owner, request = self._requests[request_id]
        stop = request.stop
        if stop is not None:
            if stop.kind == "repeat" and index >= stop.at:
                return REPEATED_TOKEN
            if stop.kind == "eos" and index == stop.at:
                return EOS_TOKEN
            if stop.kind == "token" and index == stop.at:
                return STOP_TOKEN
        return _ordinary(_OUTPUT, owner, index)
