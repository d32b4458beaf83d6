"""A deployment as a picture: the stages of a session in order, the pools it holds, what moves."""

from serq.results.drawing.diagram import Diagram, diagram
from serq.results.drawing.svg import as_svg

__all__ = ["Diagram", "as_svg", "diagram"]
