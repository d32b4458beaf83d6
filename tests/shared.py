"""Where the material handed to the project lies, for the tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("SERQ_SHARED", ROOT.parent / "shared"))


def shared(*parts: str) -> Path:
    """The path of a handed file or folder; the test is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here (handed material; set SERQ_SHARED)")
    return path
