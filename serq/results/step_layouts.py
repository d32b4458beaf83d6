"""Every recorded step as it lies on its device: attention state, decodes and prefills, padding, graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from serq.kernels.ascend.dispatch import RankState
from serq.kernels.ascend.layout import AscendBatchLayout, AscendLayoutEngine
from serq.kernels.ascend.padding import PaddingError
from serq.kernels.sglang.layout import SglangBatchLayout
from serq.runtime.request_records import EngineRow
from serq.runtime.step_rows import ALONE

ASSERTION = "(assertion)"
"""The state of a step whose rows cannot be padded: an assertion of upstream fails there (V-077)."""


class LaidStep(NamedTuple):
    """One step on the device.

    ``state`` is what the attention backend reads (V-066), for SGLang its forward mode. ``device_decode`` and
    ``device_prefill`` tokens lie on either side of the boundary that attention sees (V-068): a one-token rest
    of a prompt is a decode there. The layers compute ``padded`` tokens, ``graph`` is the runtime mode.
    """

    state: str
    device_decode: int
    device_prefill: int
    padded: int
    graph: str


@dataclass(frozen=True, slots=True)
class StateShare:
    """Steps and tokens of one engine in one attention state."""

    engine: EngineRow
    state: str
    steps: int
    tokens: int


def lay_out(engines: Sequence[EngineRow]) -> list[list[LaidStep]]:
    """The steps of every engine; none where a run was not asked to keep their rows."""
    families: dict[str, list[EngineRow]] = {}
    for engine in engines:
        families.setdefault(engine.name, []).append(engine)
    groups = {name: _Group(members) for name, members in families.items()}
    return [list(_steps(engine, groups[engine.name])) for engine in engines]


def state_shares(engines: Sequence[EngineRow]) -> list[StateShare]:
    """How the steps since warm-up divide into states, those of an engine in the order of their coming."""
    shares = []
    for engine, laid in zip(engines, lay_out(engines), strict=True):
        tokens = engine.table.tokens
        counts: dict[str, list[int]] = {}
        for place in range(len(laid) - min(engine.steps, len(laid)), len(laid)):
            count = counts.setdefault(laid[place].state, [0, 0])
            count[0] += 1
            count[1] += tokens[place]
        shares += [StateShare(engine, state, *count) for state, count in counts.items()]
    return shares


def _steps(engine: EngineRow, group: _Group) -> Iterator[LaidStep]:
    rows, layout = engine.rows, engine.layout
    if rows is None or layout is None:
        return
    for step, round_number in enumerate(rows.rounds):
        batch = rows.batch(step)
        try:
            if round_number == ALONE or not isinstance(layout, AscendLayoutEngine):
                yield _described(layout.layout(batch))
            else:
                yield _described(layout.layout_with_ranks(batch, group.others(engine, round_number)))
        except PaddingError:
            yield LaidStep(ASSERTION, batch.tokens - batch.prefilled, batch.prefilled, batch.tokens, "-")


class _Group:
    """What data-parallel ranks publish before a step: padded tokens and graph mode (V-074)."""

    def __init__(self, ranks: Sequence[EngineRow]) -> None:
        self._ranks = ranks
        self._places = [
            {} if rank.rows is None else {number: step for step, number in enumerate(rank.rows.rounds)}
            for rank in ranks
        ]

    def others(self, rank: EngineRow, round_number: int) -> list[RankState]:
        """The states of the other ranks in a round; one without a step runs a dummy batch (V-076)."""
        return [
            self._state(other, places.get(round_number))
            for other, places in zip(self._ranks, self._places, strict=True)
            if other is not rank
        ]

    @staticmethod
    def _state(rank: EngineRow, step: int | None) -> RankState:
        assert isinstance(rank.layout, AscendLayoutEngine) and rank.rows is not None
        return rank.layout.dummy_state() if step is None else rank.layout.state(rank.rows.batch(step))


def _described(layout: AscendBatchLayout | SglangBatchLayout) -> LaidStep:
    if isinstance(layout, SglangBatchLayout):
        tokens = layout.num_tokens
        prefill = tokens - sum(row.decode for row in layout.rows)
        return LaidStep(layout.mode.value, tokens - prefill, prefill, tokens, layout.graph.name)
    split = layout.split
    return LaidStep(
        layout.state.attention.label,
        split.num_decode_tokens,
        split.num_prefill_tokens,
        layout.num_tokens,
        layout.graph.name,
    )
