"""Garbage is looked for rarely while a run goes on: what sessions leave behind is freed without."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS_BETWEEN: Final = 200_000


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Let Python's cyclic collector come by after hundreds of thousands of new objects, not after hundreds.

    It would walk over everything that is recorded, again and again, a quarter of the time of a run; what a
    session leaves behind has no cycles. What a whole run leaves behind has, and is collected afterwards, when
    the collector comes by as before.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
