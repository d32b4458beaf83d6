"""The help line for the handle of a request that nobody sends."""

from __future__ import annotations

from serq.ir.nearest import closest
from serq.ir.validate.index import Index


def unknown_handle(handle: str, index: Index) -> str | None:
    """The help line for a handle that no request has."""
    near = closest(handle, index.handles)
    if near is not None:
        return f"did you mean `{near}`?"
    if index.handles:
        return f"the handles are {', '.join(f'`{name}`' for name in sorted(index.handles))}"
    return f"send it first: `request {handle} on STAGE (…, …);`"
