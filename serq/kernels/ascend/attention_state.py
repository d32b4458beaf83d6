"""The attention state of a step: which form of the attention call the whole batch takes (V-065 to V-067)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class AttentionState(Enum):
    """What kinds of rows a batch is made of, as vllm-ascend numbers them (V-079)."""

    PREFILL_NO_CACHE = 0
    PREFILL_CACHE_HIT = 1
    DECODE_ONLY = 2
    CHUNKED_PREFILL = 3
    SPEC_DECODING = 4

    @property
    def label(self) -> str:
        """The name upstream prints, such as ``PrefillNoCache``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def of_label(cls, label: str) -> AttentionState:
        """The state with upstream's name ``label``; ValueError when there is none."""
        for state in cls:
            if state.label == label:
                return state
        raise ValueError(f"no attention state is called {label!r}")


class BatchState(NamedTuple):
    """The state a step is in.

    ``resolved`` decides whether the step counts as one with a prefill; ``attention`` is what the attention
    backend reads. They differ for speculative decoding with another method than mtp (V-066).
    """

    resolved: AttentionState
    attention: AttentionState

    @property
    def with_prefill(self) -> bool:
        """Whether the step is treated as containing a prefill."""
        return self.resolved not in (AttentionState.DECODE_ONLY, AttentionState.SPEC_DECODING)


def batch_state(
    computed: Sequence[int],
    scheduled: Sequence[int],
    drafts: Sequence[int],
    *,
    speculative_method: str | None = None,
    chunked_prefill: bool = True,
) -> BatchState:
    """The state of a batch, the first rule that matches (V-065).

    ``computed`` tokens per row lie in the cache before the step, ``scheduled`` are computed in it, ``drafts``
    of them are speculative. Row lengths decide, not phases: one-token rows of cached prompts are a
    ``DecodeOnly`` batch, one-token rows of fresh prompts a ``PrefillNoCache`` one (V-067).
    """
    resolved = _resolve(computed, scheduled, drafts, speculative_method, chunked_prefill)
    if resolved is AttentionState.SPEC_DECODING and speculative_method != "mtp":
        return BatchState(resolved, AttentionState.CHUNKED_PREFILL)
    return BatchState(resolved, resolved)


def _resolve(
    computed: Sequence[int],
    scheduled: Sequence[int],
    drafts: Sequence[int],
    speculative_method: str | None,
    chunked_prefill: bool,
) -> AttentionState:
    if not any(computed):
        return AttentionState.PREFILL_NO_CACHE
    if all(tokens == 1 for tokens in scheduled):
        return AttentionState.SPEC_DECODING if speculative_method == "mtp" else AttentionState.DECODE_ONLY
    if all(tokens - draft == 1 for tokens, draft in zip(scheduled, drafts, strict=True)):
        return AttentionState.SPEC_DECODING if speculative_method else AttentionState.CHUNKED_PREFILL
    return AttentionState.CHUNKED_PREFILL if chunked_prefill else AttentionState.PREFILL_CACHE_HIT
