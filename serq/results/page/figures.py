"""The figures of a run as SVG inside the page; their ink is that of the text around them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from serq.errors import UsageError
from serq.results.plots import FIGURES
from serq.results.plots.style import styled
from serq.runtime.records import Records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK: Final = "#010203"
"""A colour that no figure uses; it becomes that of the text."""
_SETTINGS: Final = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
}
CAPTIONS: Final = {
    "latency": "The share of requests that took at most so long.",
    "timeline": "Requests that run and wait, and the share of KV blocks in use, over time.",
    "lanes": "Requests waiting in each lane of the queue, and how long the oldest of them has waited.",
    "composition": "Tokens a second, by what they belong to.",
    "budget": "The share of steps with at most so many tokens.",
}


def figures(records: Records, of: str = "") -> Iterator[tuple[str, str]]:
    """(name, SVG element) of every figure that the run ``of`` a program has something for."""
    import matplotlib

    for name, draw in FIGURES.items():
        with matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]
            try:
                drawn = draw(records, of)
            except UsageError:
                continue
            yield name, _inline(drawn, name)


def _inline(drawn: Figure, name: str) -> str:
    """The element, its ids told apart from those of other figures by the name of this one."""
    text = io.StringIO()
    with styled():
        drawn.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|xlink:href="#)', rf"\1{name}-", svg)
    return svg.replace(_INK, "currentColor").replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
