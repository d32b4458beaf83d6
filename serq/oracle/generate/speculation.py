"""Speculative decoding settings and scripts."""

from __future__ import annotations

from typing import Any

from serq.oracle.generate.draw import Draw
from serq.oracle.generate.layouts import Layout
from serq.oracle.generate.themes import Theme

_METHODS = {
    "ngram": 2.0,
    "eagle": 2.0,
    "eagle3": 0.5,
    "mtp": 2.0,
    "draft_model": 1.5,
    "dflash": 0.7,
    "dspark": 0.7,
    "medusa": 0.3,
}
_USES_EAGLE = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})  # S-004


def draw_spec(draw: Draw, theme: Theme, layout: Layout) -> dict[str, Any] | None:
    """The ``spec`` object, or None."""
    if not draw.chance(theme.speculative):
        return None
    methods = dict(_METHODS)
    if layout.caching and len(layout.groups) == 1 and layout.has("chunked_local"):
        # The only group would hold the draft layers, and no chunked-local group may.
        methods = {name: weight for name, weight in methods.items() if name not in _USES_EAGLE}
    k = draw.weighted({1: 2, 2: 3, 3: 2, 4: 1, 7: 0.3})
    spec: dict[str, Any] = {
        "method": draw.weighted(methods),
        "k": k,
        "accept": draw_acceptance(draw, k),
    }
    if draw.chance(0.25):
        spec["draft_len"] = [draw.between(0, k) for _ in range(draw.between(1, 4))]
    if draw.chance(0.15):
        spec["per_batch_size"] = _per_batch_size(draw, k)
    return spec


def draw_acceptance(draw: Draw, k: int) -> list[int]:
    """Accepted drafts of successive verifying steps."""
    return [draw.between(0, k) for _ in range(draw.between(1, 7))]


def mark_draft_layers(draw: Draw, spec: dict[str, Any], layout: Layout) -> None:
    """Which groups hold draft layers, and the extra state blocks of a mamba group.

    Without a mark the real coordinator takes every group as holding draft layers when the method uses them.
    """
    candidates = [group for group in layout.groups if group["kind"] in ("full", "sliding")]
    must_mark = layout.has("chunked_local") and layout.caching
    if candidates and spec["method"] in _USES_EAGLE and (must_mark or draw.chance(0.6)):
        draw.pick(candidates)["eagle"] = True
    for group in layout.groups:
        if group["kind"] == "mamba" and draw.chance(0.7):
            group["num_speculative_blocks"] = spec["k"]


def _per_batch_size(draw: Draw, k: int) -> list[list[int]]:
    """Ranges of batch sizes from 1 on, with gaps, and their number of drafts (sometimes above k)."""
    ranges, low = [], 1
    for _ in range(draw.between(1, 3)):
        high = low + draw.between(0, 3)
        ranges.append([low, high, draw.between(0, k + 1)])
        low = high + 1 + draw.pick((0, 0, 1, 2))
    return ranges
