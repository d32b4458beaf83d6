"""A `connector` of a run: what a transfer takes, and what may go wrong with it (design_language.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import Any

import msgspec

from serq.errors import RunError
from serq.ir import nodes
from serq.runtime.clock import Clock
from serq.runtime.faults import checked_amount
from serq.runtime.flows import FlowStage
from serq.runtime.random import DrawStream
from serq.runtime.records import ConnectorRow
from serq.runtime.stations import Station


class TransferSize(msgspec.Struct, frozen=True):
    """What the expressions of a connector read: ``tokens`` whose KV moves, and the blocks that hold them."""

    tokens: float
    blocks: float


class TransferLink:
    """Carries transfers: after `latency` and `late` each is `work` on the stage that `over` names.

    ``functions`` are the program's generated ones, ``python_name`` the part of their names that is the
    connector's. All expressions are evaluated when a transfer begins.
    """

    def __init__(
        self,
        declared: nodes.Connector,
        python_name: str,
        functions: Mapping[str, Callable[..., Any]],
        clock: Clock,
        draws: DrawStream,
    ) -> None:
        self.name = declared.name
        self.offload_blocks = declared.offload_blocks
        self.release_after = declared.release_after
        self.clock = clock
        self._draws = draws
        self._fetches = self._failed = self._offloads = self._refused = 0
        self._tokens = self._time = 0.0
        self._functions = {
            option: functions.get(f"{option}_{python_name}")
            for option in ("over", "work", "latency", "fail", "late")
        }

    def load(self, size: TransferSize, done: Callable[[bool], None]) -> None:
        """Begin to fetch KV from another engine; ``done`` is told whether the load failed.

        A failed load takes as long as a good one. Raises RunError for work or a delay that is negative or no
        number, and for a `fail` that is neither 0 nor 1.
        """
        failed = self._value("fail", size)
        if failed not in (0.0, 1.0):
            message = f"connector `{self.name}`: `fail` is 0 or 1, not {failed:.10g}"
            raise RunError(message, code="guard-not-boolean")
        delay = self._amount("latency", size) + self._amount("late", size)
        begin = self.clock.now

        def ended() -> None:
            self._fetches += 1
            self._failed += failed == 1.0
            self._tokens += size.tokens
            self._time += self.clock.now - begin
            done(failed == 1.0)

        self._carry(size, delay, ended)

    def offload(self, size: TransferSize, done: Callable[[], None]) -> None:
        """Begin a copy to or from the memory of the engine's own host, which is neither late nor fails."""
        self._carry(size, self._amount("latency", size), done)

    def asked_to_offload(self, accepted: bool) -> None:
        """Count an offload that a scheduler asked for."""
        self._offloads += accepted
        self._refused += not accepted

    def reset(self) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self._fetches = self._failed = self._offloads = self._refused = 0
        self._tokens = self._time = 0.0

    def row(self) -> ConnectorRow:
        """The figures since warm-up."""
        count = self._fetches
        return ConnectorRow(
            name=self.name,
            fetches=count,
            failed=self._failed,
            mean_tokens=self._tokens / count if count else nan,
            mean_time=self._time / count if count else nan,
            offloads=self._offloads,
            refused=self._refused,
        )

    def _carry(self, size: TransferSize, delay: float, done: Callable[[], None]) -> None:
        work = self._amount("work", size)
        over = self._functions["over"]
        assert over is not None
        stage: Station | FlowStage = over(size, self._draws)

        def begin() -> None:
            if work > 0.0:
                stage.start(None, work, done)
            else:
                done()

        if delay > 0.0:
            self.clock.at(self.clock.now + delay, begin)
        else:
            begin()

    def _value(self, option: str, size: TransferSize) -> float:
        function = self._functions[option]
        return 0.0 if function is None else float(function(size, self._draws))

    def _amount(self, option: str, size: TransferSize) -> float:
        return checked_amount(self._value(option, size), f"connector `{self.name}`: `{option}`")
