"""Replay of the recorded vllm-ascend documents in our model, and their comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from serq.errors import DataError
from serq.oracle.ascend.operator_tables import replay_c8, replay_fia, replay_gdn
from serq.oracle.ascend.plans import replay_balance_load, replay_chunk
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
    "c8": replay_c8,
    "capture": replay_capture,
    "chunk": replay_chunk,
    "dispatch": replay_dispatch,
    "fia": replay_fia,
    "gdn": replay_gdn,
    "meta": replay_meta,
    "pad_qsl": replay_pad_qsl,
    "split": replay_split,
}


def replay_ascend(document: Document) -> Any:
    """What our model says for a recorded document, in the structure of its ``expected``.

    Raises :class:`DataError` when the document's ``kind`` is not one of :data:`REPLAYS`.
    """
    kind = document.get("kind")
    replay = REPLAYS.get(str(kind))
    if replay is None:
        raise DataError(f"no Ascend recording is of kind {kind!r}; known kinds: {', '.join(sorted(REPLAYS))}")
    return replay(document)
