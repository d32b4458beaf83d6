"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, names: Iterable[str]) -> str | None:
    """The nearest of some names, None where none is near."""
    from difflib import get_close_matches  # only mistakes need it

    matches = get_close_matches(name, sorted(set(names)), n=1, cutoff=0.7)
    return matches[0] if matches else None
