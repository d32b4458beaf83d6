"""A figure that a notebook shows by itself. The module needs matplotlib: import it where you draw."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure of no window: without it a notebook shows only figures that belong to pyplot."""

    def _repr_png_(self) -> bytes:
        from serq.results.plots.style import styled

        data = BytesIO()
        with styled():
            self.savefig(data, format="png", dpi=100)
        return data.getvalue()
