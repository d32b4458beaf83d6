"""Replay of the recorded vllm-ascend documents in our model, and their comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from serq.errors import DataError
from serq.oracle.ascend.config_table import replay_config
from serq.oracle.ascend.difference import Difference, first_difference
from serq.oracle.ascend.engine import replay_balance_sched, replay_sched
from serq.oracle.ascend.operator_tables import replay_c8, replay_fia, replay_gdn
from serq.oracle.ascend.plans import replay_balance_load, replay_chunk
from serq.oracle.ascend.queues import replay_bja_queue, replay_srf_queue, replay_srf_service
from serq.oracle.ascend.worker_tables import (
    replay_attn_state,
    replay_capture,
    replay_dispatch,
    replay_meta,
    replay_pad_qsl,
    replay_split,
)

Document = dict[str, Any]

REPLAYS: dict[str, Callable[[Document], Any]] = {
    "attn_state": replay_attn_state,
    "balance_load": replay_balance_load,
    "balance_sched": replay_balance_sched,
    "bja_queue": replay_bja_queue,
    "c8": replay_c8,
    "capture": replay_capture,
    "chunk": replay_chunk,
    "config": replay_config,
    "dispatch": replay_dispatch,
    "fia": replay_fia,
    "gdn": replay_gdn,
    "meta": replay_meta,
    "pad_qsl": replay_pad_qsl,
    "sched": replay_sched,
    "split": replay_split,
    "srf_queue": replay_srf_queue,
    "srf_service": replay_srf_service,
}


def is_recording(data: Any) -> bool:
    """Whether ``data`` looks like a recording of vllm-ascend: it names its kind."""
    return isinstance(data, dict) and "kind" in data


def replay_ascend(document: Document) -> Any:
    """What our model says for a recorded document, in the structure of its ``expected``.

    Raises :class:`DataError` when its ``kind`` is not one of :data:`REPLAYS` or something in it is missing.
    """
    kind = document.get("kind")
    replay = REPLAYS.get(str(kind))
    if replay is None:
        raise DataError(f"no Ascend recording is of kind {kind!r}; known kinds: {', '.join(sorted(REPLAYS))}")
    try:
        return replay(document)
    except KeyError as error:
        raise DataError(f"a recording of kind {kind!r} needs {error}") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise DataError(f"this recording of kind {kind!r} cannot be replayed: {error}") from error


def check_ascend(document: Document) -> Difference | None:
    """Where our model and the recording first differ, None where they are identical.

    Raises :class:`DataError` like :func:`replay_ascend`, and when nothing is recorded.
    """
    if "expected" not in document:
        raise DataError("a recording needs 'expected': what the real code did")
    return first_difference(document["expected"], replay_ascend(document))
