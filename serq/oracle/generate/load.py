"""Arriving requests: bursts, shared prefixes, continued conversations, stops."""

from __future__ import annotations

from typing import Any

from serq.oracle.generate.draw import Draw
from serq.oracle.generate.outside import draw_transfer
from serq.oracle.generate.speculation import draw_acceptance
from serq.oracle.generate.themes import Theme

Json = dict[str, Any]


def draw_requests(
    draw: Draw,
    theme: Theme,
    engine: Json,
    connector: Json | None,
    spec: Json | None,
    number: int | None = None,
) -> list[Json]:
    """The ``requests`` list, in order of arrival; ``number`` of them, or a few."""
    source = _Source(draw, theme, engine, connector, spec)
    few = draw.weighted({draw.between(1, 3): 0.3, draw.between(4, 10): 3, draw.between(11, 24): 2})
    return [source.next_request() for _ in range(number or few)]


class _Source:
    def __init__(
        self, draw: Draw, theme: Theme, engine: Json, connector: Json | None, spec: Json | None
    ) -> None:
        self._draw = draw
        self._theme = theme
        self._engine = engine
        self._connector = connector
        self._spec = spec
        self._limit = engine["max_model_len"] - 1
        self._longest_prompt = self._limit
        self._block = draw.pick([g["block_size"] for g in engine["groups"] if "block_size" in g] or [16])
        self._gap = draw.pick((0, 300, 1500, 6000))
        self._longest_output = draw.pick((3, 12, 40, 80))
        self._grows = draw.chance(theme.growth)
        if self._grows:
            self._longest_output = max(8, self._longest_prompt // 2)
            self._longest_prompt = max(4, self._longest_prompt // 6)
            self._gap = draw.pick((0, 300))
        self._prefixes = [draw.near(self._block, self._longest_prompt) for _ in range(draw.between(1, 3))]
        # Requests that share a block whose load fails, or fail in one step, end in an unspecified order.
        self._ends_on_failure = (connector or {}).get("load_failure_policy") == "fail"
        self._sharing = 0.0 if self._ends_on_failure else theme.sharing * draw.uniform(0.3, 1.0)
        self._time = 0
        self._made: list[Json] = []

    def next_request(self) -> Json:
        draw = self._draw
        self._time += 0 if draw.chance(0.3) else draw.between(0, 2 * self._gap)
        lengths = draw.between if self._grows else draw.skewed
        max_tokens = lengths(1, self._longest_output)
        request: Json = {"id": f"r{len(self._made)}", "t": self._time, "prompt": 0, "max_tokens": max_tokens}
        self._draw_prompt(request)
        if self._engine.get("policy") == "priority":
            request["priority"] = draw.between(-1, 2)
        self._draw_ending(request)
        if draw.chance(0.03):
            request["skip_cache"] = True
        if self._connector is not None and draw.chance(0.7):
            request["kv"] = draw_transfer(draw, self._engine, request["prompt"])
            if self._ends_on_failure and any("fail" in earlier.get("kv", {}) for earlier in self._made):
                request["kv"].pop("fail", None)
        if self._spec is not None and draw.chance(0.15):
            request["accept"] = draw_acceptance(draw, self._spec["k"])
        self._made.append(request)
        return request

    def _draw_prompt(self, request: Json) -> None:
        """A prompt of its own, one with a shared prefix, or a further turn of a conversation."""
        draw = self._draw
        if draw.chance(self._sharing):
            if self._made and draw.chance(0.4) and self._continue(request, draw.pick(self._made)):
                return
            group = draw.between(0, len(self._prefixes) - 1)
            length = self._prefixes[group]
            if draw.chance(0.3):
                length = draw.near(self._block, length)
            own = 0 if draw.chance(0.2) else draw.skewed(1, 2 * self._block + 8)
            request["prompt"] = min(length + own, self._longest_prompt)
            request["prefix_group"] = group
            request["prefix_len"] = min(length, request["prompt"])
            return
        highest = draw.pick((self._longest_prompt, self._longest_prompt // 2, 2 * self._block))
        request["prompt"] = min(draw.near(self._block, max(highest, 1)), self._longest_prompt)

    def _continue(self, request: Json, earlier: Json) -> bool:
        """Start with the earlier request's prompt and (some of) its outputs; False if that is too long."""
        draw = self._draw
        length = earlier["prompt"] + draw.between(0, earlier["max_tokens"])
        if length + 1 > self._limit:
            return False
        request["continues"] = {"id": earlier["id"], "len": length}
        own = draw.skewed(0, 2 * self._block + 4)
        request["prompt"] = min(length + own, self._limit)
        self._time += draw.pick((0, 5, 20)) * self._gap
        request["t"] = self._time
        return True

    def _draw_ending(self, request: Json) -> None:
        draw, max_tokens = self._draw, request["max_tokens"]
        if draw.chance(0.3):
            kind = draw.weighted({"eos": 2, "token": 2, "repeat": 1})
            request["stop"] = {"kind": kind, "at": draw.between(0, max_tokens)}
            if kind == "repeat":
                request["stop"]["count"] = draw.between(2, 4)
        if draw.chance(0.12):
            # Beyond the longest sequence the real scheduler does not stop a request, and then fails.
            request["min_tokens"] = draw.between(0, min(max_tokens, self._limit + 1 - request["prompt"]))
