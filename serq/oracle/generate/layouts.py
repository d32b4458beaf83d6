"""KV cache groups that the real coordinator accepts.

With prefix caching on it wants: at least two different specs when there are several groups; mamba blocks of
the smallest block size (S-110); chunked-local blocks of the scheduler's block size; sliding blocks that
divide the granularity of hits; no draft layers in chunked-local groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from serq.oracle.generate.draw import Draw
from serq.oracle.generate.themes import Theme

JsonGroup = dict[str, Any]


@dataclass(slots=True)
class Layout:
    """The groups and the two settings that belong to them."""

    groups: list[JsonGroup]
    caching: bool = True
    settings: dict[str, Any] = field(default_factory=dict)

    def has(self, kind: str) -> bool:
        """Whether a group is of this kind."""
        return any(group["kind"] == kind for group in self.groups)

    @property
    def block_sizes(self) -> list[int]:
        """Of the groups whose block size is set."""
        return [group["block_size"] for group in self.groups if "block_size" in group]


def draw_layout(draw: Draw, theme: Theme) -> Layout:
    """Groups, caching, the unit of matching and the retention interval."""
    caching = draw.chance(theme.caching)
    weights = {name: weight for name, weight in theme.layouts.items() if caching or name not in _FINE}
    name = draw.weighted(weights or {"full": 1.0})
    layout = Layout(_LAYOUTS[name](draw), caching)
    if not caching:
        _without_caching(draw, layout)
    elif name in _FINE:
        layout.settings["prefix_match_unit"] = _unit(draw, layout, finer=True)
    elif len(layout.groups) > 1 and not (layout.has("sliding") and layout.has("mamba")) and draw.chance(0.1):
        layout.settings["prefix_match_unit"] = _unit(draw, layout, finer=False)
    if caching and (layout.has("sliding") or layout.has("mamba")) and draw.chance(0.25):
        # A retention interval is a multiple of the scheduler's block size, the largest of powers of two.
        layout.settings["retention_interval"] = draw.pick((0, 1, 2, 3, 4)) * max(layout.block_sizes)
    return layout


def _unit(draw: Draw, layout: Layout, *, finer: bool) -> int:
    """A unit of matching that divides every block size; ``finer``: below the smallest of them."""
    smallest = min(layout.block_sizes)
    return draw.pick([unit for unit in (1, 2, 4, 8, 16, 32) if unit < smallest + (not finer)])


def _without_caching(draw: Draw, layout: Layout) -> None:
    """Without caching a mamba state is one block per request (S-111)."""
    for group in layout.groups:
        if group["kind"] == "mamba":
            group["mode"] = "none"
            if draw.chance(0.7):
                group.pop("block_size", None)


def _full(block_size: int) -> JsonGroup:
    return {"kind": "full", "block_size": block_size}


def _sliding(draw: Draw, block_size: int) -> JsonGroup:
    window = draw.near(block_size, 6 * block_size)
    return {"kind": "sliding", "block_size": block_size, "window": window + 1}


def _chunked(draw: Draw, block_size: int) -> JsonGroup:
    chunk = draw.near(block_size, 6 * block_size)
    return {"kind": "chunked_local", "block_size": block_size, "chunk": max(chunk, 2)}


def _mamba(draw: Draw, block_size: int, mode: str) -> list[JsonGroup]:
    return [
        {"kind": "mamba", "mode": mode, "name": f"state{index}", "block_size": block_size}
        for index in range(draw.weighted({1: 3, 2: 2, 3: 1}))
    ]


def _size(draw: Draw) -> int:
    return draw.weighted({1: 0.3, 2: 0.7, 4: 2, 8: 2, 16: 2, 32: 0.7})


def _one_full(draw: Draw) -> list[JsonGroup]:
    return [_full(_size(draw))]


def _one_sliding(draw: Draw) -> list[JsonGroup]:
    return [_sliding(draw, _size(draw))]


def _two_sliding(draw: Draw) -> list[JsonGroup]:
    first = _sliding(draw, _size(draw))
    second = _sliding(draw, _size(draw))
    if (first["block_size"], first["window"]) == (second["block_size"], second["window"]):
        second["window"] += 1
    return [first, second]


def _full_sliding(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    groups = [_full(size), _sliding(draw, size if draw.chance(0.5) else _size(draw))]
    return groups if draw.chance(0.7) else groups[::-1]


def _full_two_sliding(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    groups = [_full(size)]
    for _ in range(2):
        groups.append(_sliding(draw, size if draw.chance(0.6) else _size(draw)))
    if draw.chance(0.3):
        groups.append(_full(size))
    return groups


def _one_chunked(draw: Draw) -> list[JsonGroup]:
    return [_chunked(draw, _size(draw))]


def _full_chunked(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    return [_full(size), _chunked(draw, size)]


def _sliding_chunked(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    return [_sliding(draw, size), _chunked(draw, size)]


def _align(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    return [_full(size), *_mamba(draw, size, "align")]


def _align_only(draw: Draw) -> list[JsonGroup]:
    return _mamba(draw, _size(draw), "align")[:1]


def _align_sliding(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    attention = [_sliding(draw, size)] if draw.chance(0.4) else [_full(size), _sliding(draw, size)]
    return [*attention, *_mamba(draw, size, "align")]


def _align_under_full(draw: Draw) -> list[JsonGroup]:
    """The full group's block is a multiple of the state's."""
    size = draw.pick((2, 4, 8, 16))
    return [_full(size * draw.pick((2, 4))), *_mamba(draw, size, "align")]


def _all(draw: Draw) -> list[JsonGroup]:
    size = _size(draw)
    return [_full(size), *_mamba(draw, size, "all")]


def _all_only(draw: Draw) -> list[JsonGroup]:
    return _mamba(draw, _size(draw), "all")[:1]


def _fine(draw: Draw) -> list[JsonGroup]:
    size = draw.weighted({4: 1, 8: 2, 16: 3, 32: 2, 64: 1})
    return [_full(size), *_mamba(draw, size, "align")]


def _fine_under_full(draw: Draw) -> list[JsonGroup]:
    size = draw.pick((4, 8, 16))
    return [_full(size * draw.pick((2, 4))), *_mamba(draw, size, "align")]


def _none(draw: Draw) -> list[JsonGroup]:
    return [_full(_size(draw)), *_mamba(draw, 16, "none")]


_LAYOUTS: Mapping[str, Callable[[Draw], list[JsonGroup]]] = {
    "full": _one_full,
    "sliding": _one_sliding,
    "two_sliding": _two_sliding,
    "full_sliding": _full_sliding,
    "full_two_sliding": _full_two_sliding,
    "chunked": _one_chunked,
    "full_chunked": _full_chunked,
    "sliding_chunked": _sliding_chunked,
    "align": _align,
    "align_only": _align_only,
    "align_sliding": _align_sliding,
    "align_under_full": _align_under_full,
    "all": _all,
    "all_only": _all_only,
    "fine": _fine,
    "fine_under_full": _fine_under_full,
    "none": _none,
}
_FINE = frozenset({"fine", "fine_under_full"})
