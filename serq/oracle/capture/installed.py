"""Which vLLM this interpreter has, and the settings under which its scheduler runs without a device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

from serq.errors import SerqError

SUPPORTED_VLLM = "0.27.1"

_QUIET_CPU = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "CRITICAL", "VLLM_USE_V2_MODEL_RUNNER": "0"}


class VllmUnavailableError(SerqError):
    """This Python has no vLLM, or one whose scheduler is not the one we know."""


def installed_vllm() -> str | None:
    """The version of the installed vLLM without its build label, or None."""
    try:
        return metadata.version("vllm").partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def require_vllm() -> None:
    """Raise VllmUnavailableError unless the supported vLLM is installed; make it quiet and deviceless."""
    found = installed_vllm()
    if found != SUPPORTED_VLLM:
        here = "has none" if found is None else f"has vLLM {found}"
        raise VllmUnavailableError(
            f"capture drives the scheduler of vLLM {SUPPORTED_VLLM}, and {sys.executable} {here}; "
            f"run it with a Python in which vllm=={SUPPORTED_VLLM} is installed"
        )
    for name, value in _QUIET_CPU.items():
        os.environ.setdefault(name, value)


@contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Set (with None: unset) environment variables that vLLM reads as configuration; restore them after."""
    before = {name: os.environ.get(name) for name in values}
    _apply(values)
    try:
        yield
    finally:
        _apply(before)


def _apply(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
