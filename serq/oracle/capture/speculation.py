"""How many drafts the scripted drafter proposes and the scripted verifier accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from serq.oracle.capture.scenario import ArrivingRequest, Spec


class SpeculationScript:
    """Counts each request's verifying and sampling steps to know where it stands in the script."""

    def __init__(self, spec: Spec, requests: Iterable[ArrivingRequest]) -> None:
        self.k = spec.k
        self._lengths: Sequence[int] = spec.draft_len or (spec.k,)
        self._accept = {request.id: request.accept or spec.accept for request in requests}
        self._verified: Counter[str] = Counter()
        self._sampled: Counter[str] = Counter()

    def num_accepted(self, request_id: str, num_drafts: int) -> int:
        """Accepted drafts of the request's next verifying step."""
        script = self._accept[request_id]
        step = self._verified[request_id]
        self._verified[request_id] += 1
        return min(script[step % len(script)], num_drafts)

    def num_proposed(self, request_id: str, limit: int) -> int:
        """Drafts proposed after the request's next sampling step, at most ``limit``."""
        step = self._sampled[request_id]
        self._sampled[request_id] += 1
        return min(self._lengths[step % len(self._lengths)], limit)
