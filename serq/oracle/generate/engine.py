"""Engine settings that pass the real configuration's checks (S-003)."""

from __future__ import annotations

from typing import Any

from serq.oracle.generate.draw import Draw
from serq.oracle.generate.layouts import Layout
from serq.oracle.generate.themes import Theme

Json = dict[str, Any]

_SLOTS_PER_SEQUENCE = {"draft_model": 1}  # S-002


def draw_engine(draw: Draw, theme: Theme, layout: Layout, spec: Json | None) -> Json:
    """The ``engine`` object but for the size of the pool. Settings that keep their default are left out."""
    block = max(layout.block_sizes, default=16)
    longest = draw.between(max(24, 2 * block), max(64, min(12 * block, 320)))
    engine: Json = {
        "max_num_seqs": draw.weighted({1: 0.3, 2: 1, 3: 2, 4: 3, 6: 2, 8: 2, 16: 1}),
        "max_model_len": longest,
        "groups": layout.groups,
        **layout.settings,
    }
    if not layout.caching:
        engine["enable_prefix_caching"] = False
    if draw.chance(theme.asynchronous):
        engine["async_scheduling"] = True
        if draw.chance(0.1):
            engine["v2_model_runner"] = True
    if draw.chance(theme.priority):
        engine["policy"] = "priority"
    _draw_budget(draw, theme, engine, spec)
    _draw_admission(draw, theme, engine)
    if draw.chance(theme.cadence):
        engine["prefill_schedule_interval"] = draw.between(2, 5)
    return engine


def draw_num_gpu_blocks(
    draw: Draw, theme: Theme, engine: Json, spec: Json | None, requests: list[Json]
) -> int:
    """A pool for the longest request and little more, or for all of them; now and then one too small."""
    lookahead = spec["k"] + 1 if spec else 0
    final = [min(r["prompt"] + r["max_tokens"], engine["max_model_len"]) + lookahead for r in requests]
    longest = _demand(engine, max(final))
    if draw.chance(0.02):
        return 1 + draw.between(max(longest // 2, 1), longest)
    if draw.chance(theme.pressure):
        return 1 + int(longest * draw.uniform(1.0, draw.pick((1.2, 1.7, 2.5)))) + draw.between(0, 2)
    return 1 + sum(_demand(engine, length) for length in final)


def _draw_budget(draw: Draw, theme: Theme, engine: Json, spec: Json | None) -> None:
    """Tokens per step. Chunked prefill off needs a budget of a whole sequence."""
    longest, seqs = engine["max_model_len"], engine["max_num_seqs"]
    slots = _SLOTS_PER_SEQUENCE.get(spec["method"], 0) * seqs if spec else 0
    least = seqs + slots + (spec["k"] if spec else 0) + 1
    budget = draw.pick((draw.between(least, 40), draw.between(least, longest), draw.near(16, 2 * longest)))
    if draw.chance(0.4 * theme.tight_knobs):
        engine["enable_chunked_prefill"] = False
        budget = draw.between(longest, longest + 40)
        least = max(least, longest)
    engine["max_num_batched_tokens"] = budget = max(budget, least)
    if draw.chance(0.25 * theme.tight_knobs):
        engine["max_num_scheduled_tokens"] = draw.between(max(1, (budget - slots) // 2), budget - slots)
    if draw.chance(0.5 * theme.tight_knobs):
        engine["long_prefill_token_threshold"] = draw.between(1, min(longest, 48))


def _draw_admission(draw: Draw, theme: Theme, engine: Json) -> None:
    if draw.chance(0.3):
        engine["reserve_full_isl"] = False
    if draw.chance(0.5 * theme.tight_knobs):
        engine["watermark"] = draw.pick((0.01, 0.05, 0.1, 0.2, 0.3))


def _demand(engine: Json, num_tokens: int) -> int:
    """Blocks that a request of so many tokens may hold at once, generously."""
    total = 0
    for group in engine["groups"]:
        size: int = group.get("block_size", engine["max_model_len"])
        if group["kind"] == "mamba" and group["mode"] != "all":
            total += 3
        else:
            total += -(-num_tokens // size)
        total += int(group.get("num_speculative_blocks", 0))
    return total
