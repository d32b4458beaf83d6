"""Where a run hands over what it has recorded, so that it need not remember it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from serq.runtime.records import Series
from serq.runtime.request_records import RequestTable

if TYPE_CHECKING:
    from serq.runtime.serving.engine_log import EngineLog


class LiveRecords(msgspec.Struct, frozen=True):
    """What a run has recorded and not handed over, growing while it runs."""

    series: Mapping[str, Series]
    requests: RequestTable
    engines: Sequence[EngineLog]
    """In the order of declaration; `engine` of a request is a place here."""
    note_progress: Callable[[], None]
    """Write down how far open requests have come; asked before steps are taken away."""


class RecordSink(Protocol):
    """Takes records away from a run."""

    def offer(self, live: LiveRecords) -> None:
        """Called now and then: take what is complete, if it is enough to be worth it."""

    def begin_again(self) -> None:
        """The run begins anew, and will record the same once more: forget what was taken."""
