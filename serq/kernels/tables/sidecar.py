"""What stands beside a table of measurements: what its columns mean, who measured where (docs/executors.md).

`NAME.toml` or `NAME.json` beside `NAME.csv`. Everything is checked; a key that means nothing is refused.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from serq.errors import DataError
from serq.kernels.registry import Origin
from serq.kernels.tables.quantities import QUANTITIES
from serq.source import read_text

SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
"""Unit of a time -> seconds."""

SHAPE: Final = "shape"
"""The axis of a table whose points are whole steps, as text (``serq.kernels.step_shape``)."""

Metadata = TypeVar("Metadata", bound=msgspec.Struct)


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who measured, on what, with which software, where it was published."""

    device: str
    measured_by: str
    software: dict[str, str]
    """Package -> version: driver, CANN or CUDA, framework, engine."""
    soc: str = ""
    date: str = ""
    source: str = ""
    method: str = ""
    """Warm-up, repetitions, and whether mean or median."""

    def text(self) -> str:
        """In one line."""
        software = ", ".join(f"{name} {version}" for name, version in self.software.items())
        parts = (self.soc or self.device, software, self.measured_by, self.date, self.source)
        return "; ".join(filter(None, parts))


    def origin(self, file: str) -> Origin:
        """Where the measurements in ``file`` come from."""
        return Origin(file, self.soc or self.device, self.date)


class Sidecar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the rows of one table price one operator of a step.

    ``axes`` are columns that are quantities of a step, or ``shape`` alone: the whole step as text, its
    contexts rounded up to ``context_step`` tokens. ``calls`` calls are made in a step that has ``when``
    (empty: in every step), each for ``value`` in ``unit``. ``notes`` are columns that nothing reads,
    ``dimensions`` say of which model and shard the operator is.
    """

    schema: Literal[1]
    operator: str
    axes: tuple[str, ...]
    value: str
    unit: Literal["s", "ms", "us"]
    provenance: Provenance
    calls: int = 1
    when: str = ""
    notes: tuple[str, ...] = ()
    context_step: int = 1
    evidence: Literal["measured", "assumed"] = "measured"
    dimensions: dict[str, str | int] = {}


def read_sidecar(path: Path) -> Sidecar:
    """The metadata at ``path``. Raises DataError, with the line, for anything that it may not say."""
    text = read_text(path, "table metadata")
    sidecar = read_toml(path, Sidecar, "table metadata")
    quantities = () if sidecar.axes == (SHAPE,) else sidecar.axes
    for name in (*quantities, *filter(None, (sidecar.when,))):
        if name not in QUANTITIES:
            known = ", ".join(QUANTITIES)
            place = _line_of(text, name)
            raise DataError(f"{path}{place}: `{name}` is no quantity of a step; there are {known}")
    if not sidecar.axes or len(set(sidecar.axes)) < len(sidecar.axes):
        raise DataError(f"{path}{_line_of(text, 'axes')}: `axes` names one column or more, each once")
    if sidecar.calls < 1:
        raise DataError(f"{path}{_line_of(text, 'calls')}: `calls` must be at least 1")
    if sidecar.context_step < 1 or (quantities and sidecar.context_step != 1):
        raise DataError(
            f"{path}{_line_of(text, 'context_step')}: `context_step` is 1 or more, and only of `shape` tables"
        )
    return sidecar


def read_toml(path: Path, what: type[Metadata], role: str) -> Metadata:
    """A TOML file, or a JSON one by its name, as ``what``. Raises DataError, with the line."""
    text = read_text(path, role)
    try:
        plain = msgspec.json.decode(text) if path.suffix == ".json" else tomllib.loads(text)
        return msgspec.convert(plain, what)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as error:
        raise DataError(f"{path}{_line(text, error)}: {error}") from None


def _line(text: str, error: Exception) -> str:
    """Where in the text an error is: the key that msgspec names, if it stands there."""
    named = re.search(r"(?:field `(\w+)`|\$(?:\.\w+)*\.(\w+))", str(error))
    if isinstance(error, msgspec.ValidationError) and named:
        return _line_of(text, named[1] or named[2])
    where: Any = re.search(r"line (\d+)", str(error))
    return f":{where[1]}" if where else ""


def _line_of(text: str, word: str) -> str:
    """The first line with a word, as a place behind a file name; empty where it stands nowhere."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(rf"\b{re.escape(word)}\b", line):
            return f":{number}"
    return ""
