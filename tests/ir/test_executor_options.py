"""Kinds of executors: their page, their factories, and defaults that their own tables would take."""

from __future__ import annotations

from importlib import import_module

import pytest

from serq.ir.executor_options import EXECUTOR_KINDS
from serq.kernels.registry import FACTORIES
from tests.ir.executor_page import PAGE, page


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text("utf-8") == page()


@pytest.mark.parametrize("kind", FACTORIES)
def test_every_kind_has_a_factory(kind: str) -> None:
    module, _, function = FACTORIES[kind].partition(":")
    assert callable(getattr(import_module(module), function))


def test_kinds_and_factories_are_the_same() -> None:
    assert FACTORIES.keys() == EXECUTOR_KINDS.keys()


def test_defaults_are_legal() -> None:
    for kind in EXECUTOR_KINDS.values():
        for option in kind.options.values():
            if isinstance(option.default, int | float) and not isinstance(option.default, bool):
                assert option.fault(option.default) is None, option
            if option.words and option.default is not None:
                assert option.default in option.words, option
