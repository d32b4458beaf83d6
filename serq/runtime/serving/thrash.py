"""Engines that thrash: they compute again much of what they had, because more run than the memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from serq.ir.wording import counted
from serq.source import Diagnostic

OFTEN: Final = 5
"""Preemptions of one request from which on it thrashes; real engines were seen with 4 (inference-sim#963)."""
MUCH: Final = 0.1
"""The share of lost tokens from which on an engine thrashes: where recomputation is felt (vllm#54644)."""


def thrash_sentence(name: str, tokens: int, lost: int, times: Mapping[int, int]) -> str | None:
    """What is said of an engine that computed ``tokens`` and lost ``lost`` of them; None: it does not thrash.

    ``times`` says how often each request gave way, by its number.
    """
    if not times or not tokens:
        return None
    share = lost / tokens
    worst, most = min(times.items(), key=lambda entry: (-entry[1], entry[0]))
    if share < MUCH and most < OFTEN:
        return None
    return (
        f"`{name}` thrashes: {counted(sum(times.values()), 'preemption')} lost {lost} computed tokens, "
        f"{100 * share:.1f} % of all that it computed; request {worst} gave way {counted(most, 'time')}"
    )


def thrash_warning(
    name: str, stage: str, tokens: int, lost: int, times: Mapping[int, int]
) -> list[Diagnostic]:
    """The warning about an engine that thrashes since warm-up, if it does."""
    sentence = thrash_sentence(name, tokens, lost, times)
    if sentence is None:
        return []
    return [
        Diagnostic(
            "thrashing",
            sentence,
            owner=f"stage `{stage}`",
            severity="warning",
            help="fewer requests at once (`max_num_seqs`), more blocks, or less load",
        )
    ]
