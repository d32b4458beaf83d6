"""The world around the engine: costs, connector, aborts, resets and pauses."""

from __future__ import annotations

from typing import Any

from serq.oracle.generate.draw import Draw
from serq.oracle.generate.themes import Theme


def draw_cost(draw: Draw) -> dict[str, int]:
    """What a step takes; now and then nothing at all."""
    if draw.chance(0.02):
        return {"base": 0}
    return {
        "base": draw.pick((0, 100, 1000, 1000, 1000, 5000)),
        "per_token": draw.pick((0, 1, 10, 10, 37)),
        "per_seq": draw.pick((0, 0, 5, 50)),
    }


def draw_connector(draw: Draw, theme: Theme) -> dict[str, str] | None:
    """The ``kv_connector`` object, or None."""
    if not draw.chance(theme.connector):
        return None
    connector = {
        "name": "DecodeBenchConnector" if draw.chance(0.05) else "scripted",
        "role": draw.pick(("kv_both", "kv_consumer", "kv_producer")),
    }
    if draw.chance(0.3):
        connector["load_failure_policy"] = "fail"
    return connector


def draw_transfer(draw: Draw, engine: dict[str, Any], prompt: int) -> dict[str, Any]:
    """A request's ``kv`` script.

    Only a single full-attention group can have failing blocks: with more the real scheduler cannot name them.
    A request that loads asynchronously sends nothing, since an abort meanwhile would end it twice.
    """
    block = engine["groups"][0].get("block_size", engine["max_model_len"])
    script: dict[str, Any] = {}
    if draw.chance(0.8):
        script["ext"] = draw.near(block, prompt + block)
        if draw.chance(0.6):
            script.update({"async": True, "delay": draw.pick((0, 500, 3000, 20000)) + draw.between(0, 999)})
        if draw.chance(0.3):
            script["once"] = True
        only_full = [group["kind"] for group in engine["groups"]] == ["full"]
        if only_full and draw.chance(0.2):
            script["fail"] = draw.between(0, (min(script["ext"], prompt) - 1) // block)
            script["once"] = True  # else the same load fails again, for ever
    if draw.chance(0.2):
        script["undecided"] = draw.between(1, 4)
    if not script.get("async") and draw.chance(0.3):
        script["send"] = draw.pick((0, 2000, 15000)) + draw.between(0, 999)
    return script


def draw_events(
    draw: Draw, theme: Theme, engine: dict[str, Any], cost: dict[str, int], requests: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Aborts, resets and pauses while requests are under way.

    Aborts keep the longest step apart: those of one step reach the scheduler as an unordered set. Where an
    empty step costs as little as a full one (no base cost) there is only one.
    """
    longest_step = (
        cost.get("base", 0)
        + cost.get("per_token", 0) * engine["max_num_batched_tokens"]
        + cost.get("per_seq", 0) * engine["max_num_seqs"]
    )
    horizon = requests[-1]["t"] + 12 * longest_step + 1
    events: list[dict[str, Any]] = []
    if draw.chance(theme.control):
        time = draw.between(0, horizon // 3)
        for _ in range(draw.between(1, 4) if cost.get("base") else 1):
            victim = draw.pick(requests)
            time = max(time, victim["t"])
            events.append({"t": time, "op": "abort", "id": victim["id"]})
            time += 2 * longest_step + 1 + draw.between(0, horizon // 3)
    if draw.chance(0.5 * theme.control):
        for _ in range(draw.between(1, 3)):
            running = draw.chance(0.6)
            events.append({"t": draw.between(0, horizon), "op": "reset_prefix_cache", "running": running})
    if draw.chance(0.5 * theme.control):
        begin = draw.between(0, horizon)
        state = draw.pick(("PAUSED_NEW", "PAUSED_ALL"))
        events.append({"t": begin, "op": "pause", "state": state})
        if draw.chance(0.95):
            end = begin + draw.between(0, 8 * longest_step)
            events.append({"t": end, "op": "pause", "state": "UNPAUSED"})
    return events
