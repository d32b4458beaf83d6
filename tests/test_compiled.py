"""Which modules are machine code: none in a source tree, all of them in a compiled wheel."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from serq.compiled import MODULES, compiled_modules, is_compiled
from tests.shared import ROOT


def test_all_or_none() -> None:
    """What Python really loaded says so too: the class of a function of each module."""
    loaded = tuple(name for name in MODULES if not str(import_module(name).__file__).endswith(".py"))
    assert loaded == compiled_modules()
    assert loaded in ((), MODULES)
    assert is_compiled() == (loaded == MODULES)


def test_sources_lie_beside_machine_code() -> None:
    """A reader, and a traceback, find them."""
    for name in MODULES:
        path = Path(str(import_module(name).__file__))
        assert path.with_name(path.name.split(".")[0] + ".py").exists()


@pytest.mark.skipif("SERQ_EXPECT_COMPILED" not in os.environ, reason="set by .ci/compiled")
def test_this_is_the_compiled_wheel() -> None:
    """The command that tests a compiled wheel does test one, and not the sources."""
    assert is_compiled()
    assert ROOT not in Path(str(import_module("serq").__file__)).resolve().parents
