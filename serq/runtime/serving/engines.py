"""The `vllm` stages of a run together: what only all of them can answer. Imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from serq.errors import RunError
from serq.runtime.request_records import EngineRow, RequestTable
from serq.runtime.serving.starvation import starvation_in_memory
from serq.runtime.serving.thrash import thrash_warning
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.source import Diagnostic

if TYPE_CHECKING:
    from serq.runtime.serving.engine import VllmEngine

EngineMode = Literal["auto", "fast", "planned", "reference"]
"""How engines run: planned ahead where that is possible, always (or refuse), or never."""


def not_fast(stage: str, reason: WalkReason) -> RunError:
    """The error of a stage that could not be fast, where every engine must be."""
    return RunError(
        f"stage `{stage}`: no step of it can be planned ahead: {reason.value}; "
        "`--engine auto` walks where it must",
        code="not-fast",
    )


class Engines:
    """The engines of a run in the order of declaration, and the requests that were sent to them."""

    def __init__(self, notes: list[Diagnostic]) -> None:
        """``notes`` are warnings that the program deserves, whatever happens."""
        self.engines: list[VllmEngine] = []
        self.requests = RequestTable()
        self._notes = notes

    def rows(self, now: float) -> list[EngineRow]:
        """The figures of every engine, those of unfinished requests written down as they stand."""
        self.note_progress()
        return [engine.engine_row(now) for engine in self.engines]

    def note_progress(self) -> None:
        """Write down how far the requests have come that have not ended."""
        for engine in self.engines:
            engine.note_unfinished()

    def check_stalls(self) -> None:
        """Raise RunError for an engine that has requests left; asked when no event is left."""
        for engine in self.engines:
            engine.check_stall()

    def warnings(self, now: float) -> list[Diagnostic]:
        """What the engines made look unintended; starvation only where all requests are in memory."""
        starvation = [
            warning
            for number, engine in enumerate(self.engines)
            if not self.requests.handed_over
            for warning in starvation_in_memory(self.requests, number, f"{engine!r}", engine.name, now)
        ]
        families = {engine.name for engine in self.engines if engine.member > 0}
        return (
            self._notes
            + starvation
            + [
                warning
                for engine in self.engines
                if not engine.is_stalled
                for warning in thrash_warning(
                    f"{engine!r}" if engine.name in families else engine.name,
                    engine.name,
                    engine.log.tokens,
                    engine.log.queue.lost_tokens,
                    engine.log.queue.gave_way,
                )
            ]
            + [
                Diagnostic(
                    "engine-stalled",
                    f"{engine.number} request(s) wait at `{engine!r}`, which cannot schedule any of them",
                    owner=f"stage `{engine.name}`",
                    severity="warning",
                    help="the first of them needs more blocks or tokens a step than the engine can give",
                )
                for engine in self.engines
                if engine.is_stalled
            ]
        )
