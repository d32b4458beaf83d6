"""Decodes that are counted together stand, at any time, where each would stand alone."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from serq.runtime.decode_group import DecodeGroup, Growth
from serq.runtime.token_run import TokenRun


class Alone:
    """One decode by itself: R-B-023 and R-B-044, an iteration at a time."""

    def __init__(self, tokens: int, position: int, units: int, block: int) -> None:
        self.remaining, self.position, self.units, self.block = tokens, position, units, block

    def form(self) -> int:
        """What it grows by before its next token."""
        before = self.units
        if self.position + 1 > self.units:
            self.units = ceil((self.position + 1) / self.block) * self.block
        self.position += 1
        return self.units - before


def member(order: int, alone: Alone, pool: Any, *, in_memory: bool) -> TokenRun:
    session: Any = SimpleNamespace(admission=order, number=order)
    run = TokenRun(session, float(alone.remaining), True, 0.0, order)
    allocation: Any = SimpleNamespace(
        pool=pool,
        position=float(alone.position),
        units=float(alone.units),
        hold=SimpleNamespace(tracked=False),
    )
    run.growing = allocation
    if in_memory:
        run.held = allocation
    return run


joins = st.lists(
    st.tuples(
        st.integers(0, 6),  # iterations before the next one joins
        st.integers(1, 40),  # tokens
        st.integers(0, 3),  # blocks that it holds
        st.integers(0, 12),  # free places in them
        st.booleans(),  # whether it grows in the memory
    ),
    min_size=1,
    max_size=8,
)


@given(joins, st.sampled_from([1, 3, 4, 16]), st.integers(0, 60))
def test_a_group_stands_where_its_members_would(
    plan: list[tuple[int, int, int, int, bool]], block: int, dissolved_after: int
) -> None:
    pool = cast(Any, SimpleNamespace(block=float(block) if block > 1 else None))
    group = DecodeGroup()
    alone: dict[TokenRun, Alone] = {}
    waiting = list(plan)
    pause = 0
    for iteration in range(200):
        while waiting and pause == 0:
            pause, tokens, blocks, free, in_memory = waiting.pop(0)
            units = blocks * block
            one = Alone(tokens, max(0, units - free), units, block)
            run = member(len(alone) + 1, one, pool, in_memory=in_memory)
            assert group.admits(run)
            group.join(run)
            alone[run] = one
        pause = max(0, pause - 1)
        if not group.members:
            assert group.units == 0
            if not waiting:
                return
            continue
        assert group.until_finish == min(alone[run].remaining for run in group.members)
        expected = sum(alone[run].form() > 0 for run in group.members)
        assert group.growth.at(group.grown) == expected
        assert group.growth.ahead(group.grown, 1) == [expected]
        group.grow()
        in_memory = [alone[run].units for run in group.members if run.held is not None]
        assert group.units == sum(in_memory)
        group.launch()
        for run in group.members:
            alone[run].remaining -= 1
            assert group.remaining(run) == alone[run].remaining + 1
        if iteration == dissolved_after:
            for run in group.dissolve():  # while the iteration is under way
                assert run.growing is not None
                assert (run.growing.position, run.growing.units) == (alone[run].position, alone[run].units)
                assert run.remaining == alone[run].remaining + 1
            return
        due = [run for run in alone if run in group.members and alone[run].remaining == 0]
        finished = group.finish()
        assert finished == due
        for run in finished:
            assert run.growing is not None and run.growing.units == alone[run].units
            assert run.growing.position == alone[run].position and run.growing.hold.tracked


@given(st.lists(st.integers(0, 30), max_size=12), st.sampled_from([1, 3, 16]))
def test_growth_ahead_is_growth_as_it_comes(firsts: list[int], block: int) -> None:
    growth = Growth(block)
    for first in firsts:
        growth.add(first, 1, 0)
    ahead = growth.ahead(0, 60)
    expected = [sum(first <= i and (i - first) % block == 0 for first in firsts) for i in range(60)]
    assert ahead == expected
    assert [growth.take(i) for i in range(20)] == expected[:20]
    growth.pass_over(20, 15)
    assert [growth.take(i) for i in range(35, 60)] == expected[35:]


def test_who_is_no_member() -> None:
    group = DecodeGroup()
    pool = cast(Any, SimpleNamespace(block=4.0))
    regular = Alone(5, 4, 8, 4)

    def changed(**changes: Any) -> TokenRun:
        run = member(1, regular, pool, in_memory=True)
        for name, value in changes.items():
            setattr(run if hasattr(run, name) else run.growing, name, value)
        return run

    assert group.admits(changed())
    assert not group.admits(changed(decoding=False))
    assert not group.admits(changed(schedulable=False))
    assert not group.admits(changed(remaining=2.5))
    assert not group.admits(changed(position=4.5))
    assert not group.admits(changed(position=9.0))  # beyond what it holds
    assert not group.admits(changed(units=8.5))
    assert not group.admits(changed(units=9.0))  # no whole blocks
    assert not group.admits(changed(pool=SimpleNamespace(block=2.5)))
    group.join(changed())
    assert not group.admits(changed(pool=SimpleNamespace(block=4.0)))  # another pool
