"""Programs for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = """let service = 2;
stage desk : fifo;
workload { arrive batch(3); }
session { run desk (service); observe done = now; branch (serial > 0) { observe late = now - service; } }
run { horizon 10; }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Three jobs at one server: done at 2, 4 and 6."""
    path = tmp_path / "desk.sq"
    path.write_text(PROGRAM)
    return path
