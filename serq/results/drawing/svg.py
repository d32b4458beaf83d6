"""The diagram as SVG: stages in a row in the order of their visits, pools beneath, clients at the left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from serq.results.drawing.diagram import Box, Diagram, Way

_WIDTH: Final = 190
_GAP: Final = 96
_LINE: Final = 15
_MARGIN: Final = 24
_STACK: Final = 5
_ARC: Final = 26

_STYLE: Final = """
text { font: 12px sans-serif; fill: #222 }
.title { font-weight: bold }
.small { font-size: 10.5px; fill: #555 }
.box { fill: #fff; stroke-width: 1.5 }
.clients { stroke: #000 } .stage { stroke: #0072B2 } .pool { stroke: #009E73; fill: #F3FAF7 }
.way { fill: none; stroke-width: 1.4 }
.visit { stroke: #444 } .hold { stroke: #009E73; stroke-dasharray: 4 3 } .transfer { stroke: #D55E00 }
"""


@dataclass(frozen=True, slots=True)
class Placed:
    """A box and where its upper left corner is."""

    box: Box
    x: float
    y: float

    @property
    def height(self) -> float:
        """How high it is: a line for the title and each label."""
        return 16 + _LINE * (1 + len(self.box.lines))

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + _WIDTH / 2


def as_svg(drawn: Diagram, title: str = "deployment") -> str:
    """The text of an SVG file; the same each time."""
    places = _places(drawn)
    ways = list(_ways(drawn, places))
    right = max(placed.x for placed in places.values()) + _WIDTH + _MARGIN
    bottom = max(placed.y + placed.height for placed in places.values()) + _MARGIN + _back_room(drawn, places)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:g}" height="{bottom:g}" '
        f'viewBox="0 0 {right:g} {bottom:g}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        *_arrow_heads(),
        *ways,
        *(line for placed in places.values() for line in _box(placed)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _places(drawn: Diagram) -> Mapping[str, Placed]:
    """Clients and stages in the upper row, each pool beneath the first stage that holds it."""
    top = _MARGIN + _ARC * _arcs_above(drawn)
    row = [*drawn.of_kind("clients"), *drawn.of_kind("stage")]
    places = {box.key: Placed(box, _MARGIN + place * (_WIDTH + _GAP), top) for place, box in enumerate(row)}
    transfers = sum(way.kind == "transfer" for way in drawn.ways)
    below = top + max(placed.height for placed in places.values()) + 60 + 16 * transfers
    free = _MARGIN + (_WIDTH + _GAP if len(row) > 1 else 0.0)
    for box in drawn.of_kind("pool"):
        users = [places[way.end].x for way in drawn.ways if way.kind == "hold" and way.start == box.key]
        x = max(free, min(users, default=free))
        places[box.key] = Placed(box, x, below)
        free = x + _WIDTH + 30
    return places


def _arcs_above(drawn: Diagram) -> int:
    """How many ways jump over a stage to a later one, at most; room for them stands above the row."""
    order = [box.key for box in drawn.boxes if box.kind != "pool"]
    jumps = [w for w in drawn.ways if w.end in order and w.start in order]
    return min(4, sum(order.index(way.end) - order.index(way.start) > 1 for way in jumps))


def _back_room(drawn: Diagram, places: Mapping[str, Placed]) -> float:
    """Room beneath everything for the ways that lead back, and for transfers."""
    back = sum(places[w.end].x <= places[w.start].x and w.kind == "visit" for w in drawn.ways)
    return _ARC * back + 16 * sum(way.kind == "transfer" for way in drawn.ways)


def _ways(drawn: Diagram, places: Mapping[str, Placed]) -> Iterator[str]:
    """Visits to the right run straight or above the row, visits to the left beneath everything."""
    floor = max(placed.y + placed.height for placed in places.values()) + _ARC / 2
    floor += 16 * sum(way.kind == "transfer" for way in drawn.ways)
    row = max(placed.y + placed.height for placed in places.values() if placed.box.kind != "pool")
    above = below = beside = 0
    merged: dict[tuple[str, str, str], list[str]] = {}
    for way in drawn.ways:
        merged.setdefault((way.start, way.end, way.kind), []).append(way.label)
    for (start, end, kind), labels in merged.items():
        label = ", ".join(dict.fromkeys(filter(None, labels)))
        one, other = places[start], places[end]
        way = Way(start, end, kind, label)  # type: ignore[arg-type]
        if kind == "hold":
            yield from _hold(way, one, other)
        elif kind == "transfer":
            beside += 1
            lane = max(row, one.y + one.height, other.y + other.height) + 16 * beside
            yield from _transfer(way, one, other, lane)
        elif start == end:
            yield from _to_itself(way, one)
        elif other.x > one.x and other.x - one.x < _WIDTH + _GAP + 1:
            yield from _straight(way, one, other)
        elif other.x > one.x:
            above += 1
            yield from _around(way, one, other, one.y - _ARC * min(above, 4) + 6, upwards=True)
        else:
            yield from _around(way, one, other, floor + _ARC * below, upwards=False)
            below += 1


def _straight(way: Way, one: Placed, other: Placed) -> Iterator[str]:
    y = one.y + 22
    x0, x1 = one.x + _WIDTH + _stack(one.box), other.x - 2
    yield _path(way, f"M{x0:g},{y:g} L{x1:g},{y:g}")
    yield _text((x0 + x1) / 2, y - 5, _fitted(way.label, x1 - x0), "small", "middle")


def _around(way: Way, one: Placed, other: Placed, y: float, *, upwards: bool) -> Iterator[str]:
    start = one.y if upwards else one.y + one.height
    end = other.y if upwards else other.y + other.height
    x0, x1 = one.middle + 24, other.middle - 24
    yield _path(way, f"M{x0:g},{start:g} L{x0:g},{y:g} L{x1:g},{y:g} L{x1:g},{end:g}")
    yield _text((x0 + x1) / 2, y - 4, way.label, "small", "middle")


def _to_itself(way: Way, one: Placed) -> Iterator[str]:
    x, y = one.x + _WIDTH - 34, one.y
    yield _path(way, f"M{x:g},{y:g} c0,-22 26,-22 26,-1")
    yield _text(x - 4, y - 6, way.label, "small", "end")


def _hold(way: Way, pool: Placed, stage: Placed) -> Iterator[str]:
    x = min(max(pool.middle, stage.x + 12), stage.x + _WIDTH - 12)
    yield _path(way, f"M{pool.middle:g},{pool.y:g} L{x:g},{stage.y + stage.height:g}")


def _transfer(way: Way, one: Placed, other: Placed, y: float) -> Iterator[str]:
    x0, x1 = one.middle, other.middle + 8
    start, end = one.y + one.height, other.y + other.height
    yield _path(way, f"M{x0:g},{start:g} L{x0:g},{y:g} L{x1:g},{y:g} L{x1:g},{end:g}")
    yield _text(x0 + 6, y - 4, way.label, "small", "start")


def _path(way: Way, data: str) -> str:
    head = "" if way.kind == "hold" else f' marker-end="url(#{way.kind})"'
    return f'<path class="way {way.kind}" d="{data}"{head}/>'


def _arrow_heads() -> Iterator[str]:
    for kind, colour in (("visit", "#444"), ("transfer", "#D55E00")):
        yield (
            f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
        )


def _stack(box: Box) -> float:
    return _STACK if box.count > 1 else 0.0


def _box(placed: Placed) -> Iterator[str]:
    box, x, y = placed.box, placed.x, placed.y
    corner = 14 if box.kind == "clients" else 8 if box.kind == "pool" else 3
    for shift in ([_STACK] if box.count > 1 else []) + [0]:
        yield (
            f'<rect class="box {box.kind}" x="{x + shift:g}" y="{y - shift:g}" width="{_WIDTH}" '
            f'height="{placed.height:g}" rx="{corner}"/>'
        )
    count = f" × {box.count}" if box.count > 1 else ""
    yield _text(x + 10, y + 20, box.title + count, "title", "start")
    for number, line in enumerate(box.lines, 1):
        yield _text(x + 10, y + 20 + _LINE * number, line, "small", "start")


def _fitted(text: str, width: float) -> str:
    """As much of a label as stands on an arrow."""
    most = int(width / 5.6)
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(x: float, y: float, text: str, style: str, anchor: str) -> str:
    if not text:
        return ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>'
