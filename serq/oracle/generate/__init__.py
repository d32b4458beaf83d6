"""Random scenarios for the oracle: every setting and event of the format, valid for the real scheduler.

``python -m serq.oracle.generate --seeds 0:100 -o FOLDER`` writes scenario files; ``serq.oracle.capture``
records them. A seed gives the same scenario on every platform. Standard library only, like capture.

A :class:`~serq.oracle.generate.themes.Theme` says what a scenario is about, so that interactions that
are rare under uniform draws (a preemption with drafts in flight, a hit inside a block, a deferred
free) are common.
"""

from __future__ import annotations

from typing import Any

from serq.oracle.generate.draw import Draw
from serq.oracle.generate.engine import draw_engine, draw_num_gpu_blocks
from serq.oracle.generate.layouts import draw_layout
from serq.oracle.generate.load import draw_requests
from serq.oracle.generate.outside import draw_connector, draw_cost, draw_events
from serq.oracle.generate.speculation import draw_spec, mark_draft_layers
from serq.oracle.generate.themes import THEMES, Theme

__all__ = ["generate"]


def generate(seed: int, theme_name: str | None = None, num_requests: int | None = None) -> dict[str, Any]:
    """The scenario of ``seed``, as the JSON object of a scenario file.

    ``theme_name`` fixes the theme, ``num_requests`` the number of requests (else at most 24); a trace of more
    than 200 requests is recorded as a digest.
    """
    draw = Draw(f"scenario {seed}")
    names = {theme.name: theme for theme in THEMES}
    theme = names[theme_name or draw.weighted({theme.name: theme.weight for theme in THEMES})]
    layout = draw_layout(draw, theme)
    connector = draw_connector(draw, theme)
    spec = draw_spec(draw, theme, layout)
    if spec is not None:
        mark_draft_layers(draw, spec, layout)
    engine = draw_engine(draw, theme, layout, spec)
    cost = draw_cost(draw)
    requests = draw_requests(draw, theme, engine, connector, spec, num_requests)
    engine["num_gpu_blocks"] = draw_num_gpu_blocks(draw, theme, engine, spec, requests)
    scenario: dict[str, Any] = {
        "name": f"g{seed:06d}_{theme.name}",
        "note": f"generated: {_traits(theme, engine, connector, spec)}",
        "engine": engine,
        "cost": cost,
        "requests": requests,
        "trace": {"blocks": True, "queues": True} if len(requests) <= 200 else {"level": "digest"},
    }
    optional = {
        "spec": spec,
        "kv_connector": connector,
        "events": draw_events(draw, theme, engine, cost, requests),
    }
    scenario.update({name: value for name, value in optional.items() if value})
    return scenario


def _traits(theme: Theme, engine: dict[str, Any], connector: Any, spec: Any) -> str:
    traits = [theme.name, "+".join(group["kind"] for group in engine["groups"])]
    traits += ["async"] if engine.get("async_scheduling") else []
    traits += [engine["policy"]] if "policy" in engine else []
    traits += [spec["method"]] if spec else []
    traits += [connector["role"]] if connector else []
    return ", ".join(traits)
