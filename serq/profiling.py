"""Where the time of a run goes: wall clock and CPU of its phases, and what happened meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from serq.runtime.records import Records

Phase = Literal["load", "compile", "run", "report"]
PHASES: Final[tuple[Phase, ...]] = ("load", "compile", "run", "report")
"""Importing and reading a trace; text to IR to Python functions; the simulation; summaries and output."""


@dataclass(slots=True)
class Profile:
    """Seconds that each phase took so far."""

    wall: dict[Phase, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    cpu: dict[Phase, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """What is done inside belongs to ``name``, also where it fails."""
        wall, cpu = perf_counter(), process_time()
        try:
            yield
        finally:
            self.wall[name] += perf_counter() - wall
            self.cpu[name] += process_time() - cpu

    def text(self, records: Records) -> str:
        """A table of the phases, and a line of rates over the CPU time of the run."""
        lines = [f"{'profile':<9}{'wall s':>10}{'CPU s':>10}"]
        lines += [f"{name:<9}{self.wall[name]:>10.3f}{self.cpu[name]:>10.3f}" for name in PHASES]
        seconds = self.cpu["run"]
        counts = {"events": records.events, "steps": sum(row.iterations for row in records.stages)}
        parts = [
            f"{count:,} {what}" + (f" ({count / seconds:,.0f} a second)" if seconds > 0 else "")
            for what, count in counts.items()
        ]
        peak = peak_memory()
        if peak is not None:
            parts.append(f"peak memory {peak / 1e6:,.0f} MB")
        return "\n".join((*lines, ", ".join(parts), *_clock(records), *_planned(records)))


def _clock(records: Records) -> Iterator[str]:
    """Whether the run was ahead of the clock, where it has engines that could be."""
    if records.engines:
        reason = records.clock_reason
        yield "ran ahead of the clock" if reason is None else f"on the clock: {reason}"


def _planned(records: Records) -> Iterator[str]:
    """For every engine, how many of its steps were planned ahead, and why the others were not."""
    for row in records.engines:
        walked = sum(count for _, count in row.walked_steps)
        steps = row.planned_steps + walked
        if steps:
            reasons = "; ".join(f"{reason} {count:,}" for reason, count in row.walked_steps)
            share = f"{row.planned_steps / steps:.1%} of {steps:,} steps planned"
            yield f"{row.name}[{row.member}]: {share}; walked: {reasons or 'none'}"


def peak_memory() -> int | None:
    """The most memory that this process ever held, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
