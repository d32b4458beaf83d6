"""Efficiencies fitted to measurements: a TOML file that says to which, and over which range."""

from __future__ import annotations

from pathlib import Path

import msgspec

from serq.errors import DataError
from serq.kernels.roofline.operators import GROUPS
from serq.kernels.tables.sidecar import Provenance, read_toml


class GroupFit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The share of the roofline that a group of operators reaches, for steps of ``tokens[0]`` to ``[1]``."""

    efficiency: float
    tokens: tuple[float, float]


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A calibration file; a group that it lacks keeps the efficiency that is assumed for the device."""

    schema: int
    provenance: Provenance
    linear: GroupFit | None = None
    attention: GroupFit | None = None
    gdn: GroupFit | None = None
    experts: GroupFit | None = None
    lm_head: GroupFit | None = None

    def group(self, name: str) -> GroupFit | None:
        """The fit of a group, where there is one."""
        fit: GroupFit | None = getattr(self, name) if name in GROUPS else None
        return fit


def read_calibration(path: Path) -> Calibration:
    """The file at ``path``. Raises DataError, with the line, for what it may not say."""
    calibration = read_toml(path, Calibration, "calibration")
    if calibration.schema != 1:
        raise DataError(f"{path}: `schema` {calibration.schema}; this serq reads 1")
    for name in GROUPS:
        fit = calibration.group(name)
        if fit is not None and not (0.0 < fit.efficiency <= 1.5 and 0 < fit.tokens[0] <= fit.tokens[1]):
            raise DataError(
                f"{path}: `{name}`: an efficiency is between 0 and 1.5, a range of tokens runs upwards"
            )
    return calibration
