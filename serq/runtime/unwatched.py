"""Programs in which nobody looks at an engine between the iterations that it forms by itself.

A planned run changes what others see at each of its ends: the units taken of a pool, what a stage has done.
Where no expression reads that, and all that takes from the pools of an engine goes through this engine, a
plan need not be followed to every event. It is followed when its last iteration ends, and when it is cut.

Then the members of a family are worlds of their own, too: what happens at one cuts no plan of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from serq.ir import nodes
from serq.ir.walk import descendants, statements
from serq.runtime.codegen import reading

_PLAIN = nodes.Turn | nodes.Set | nodes.Observe | nodes.Choose
_ALLOWED = _PLAIN | nodes.End | nodes.Hold | nodes.Run | nodes.Branch | nodes.Loop
_STILL = frozenset({"cachedin", "blocksize"})
"""Reads of a pool that planned iterations do not change."""
_GIVEN = frozenset({"cached", "computed"})
"""Attributes that are assigned when a hold is admitted or preempted."""


def is_unwatched(program: nodes.Program) -> bool:
    """Whether plans of the one `step` stage of ``program`` are seen by nobody."""
    engines = [stage for stage in program.stages if isinstance(stage.kind, nodes.Step)]
    others = [stage for stage in program.stages if not isinstance(stage.kind, nodes.Step)]
    if len(engines) != 1 or program.gauges:
        return False
    if not all(isinstance(stage.kind, nodes.Delay | nodes.Fifo) for stage in others):
        return False
    (engine,) = engines
    step = engine.kind
    assert isinstance(step, nodes.Step)
    return (
        _has_fixed_limits(step)
        and all(pool.spill is None and reading.attributes_only(pool.queue_by) for pool in program.pools)
        and all(isinstance(statement, _ALLOWED) for statement in statements(program.session))
        and all(hold.lease is None for hold in _holds(program))
        and _reads_nothing_live(program, engine)
        and (engine.count == 1 or _members_are_apart(program, engine))
    )


def _has_fixed_limits(step: nodes.Step) -> bool:
    limits = [limit for limit in (step.budget, step.chunk) if limit is not None]
    return reading.attributes_only(limits) and not reading.reads_session(limits)


def _holds(program: nodes.Program) -> list[nodes.Hold]:
    return [statement for statement in statements(program.session) if isinstance(statement, nodes.Hold)]


def _growing(program: nodes.Program) -> set[str]:
    """The pools that some run grows into."""
    runs = [node for node in descendants(program) if isinstance(node, nodes.Run)]
    return {run.growing.name for run in runs if run.growing is not None}


def _admitting(program: nodes.Program, pool: str) -> str | None:
    """The stage that serves the queue of ``pool``."""
    return next(declared.admit_via for declared in program.pools if declared.name == pool)


# --- reads ----------------------------------------------------------------------------------------------


def _reads_nothing_live(program: nodes.Program, engine: nodes.Stage) -> bool:
    """Whether live state is read in headers only, and there it is the budget that admission leaves."""
    headers = [(hold, expr) for hold in _holds(program) for expr in _header(hold)]
    budgets = sum(
        isinstance(node, nodes.StageRead) and _is_budget_of(node, hold, program, engine)
        for hold, expr in headers
        for node in descendants(expr)
    )
    live = sum(
        isinstance(node, nodes.StageRead | nodes.RequestRead | nodes.Reusable)
        or (isinstance(node, nodes.PoolRead) and node.function not in _STILL)
        for node in descendants(program)
    )
    expressions = [expr for _, expr in headers]
    return live == budgets and not reading.draws(expressions) and not reading.variables(expressions) - {"inf"}


def _header(hold: nodes.Hold) -> Iterator[nodes.Expr]:
    for unit in hold.units:
        yield unit.units
        if unit.reserve is not None:
            yield unit.reserve


def _is_budget_of(
    node: nodes.StageRead, hold: nodes.Hold, program: nodes.Program, engine: nodes.Stage
) -> bool:
    """Whether ``node`` is what is left of the budget of the engine that admits ``hold``."""
    first = hold.units[0].pool
    return (
        node.function == "budget_left"
        and node.stage.name == engine.name == _admitting(program, first.name)
        and (engine.count == 1 or node.stage.index == first.index)
    )


# --- families -------------------------------------------------------------------------------------------


def _members_are_apart(program: nodes.Program, engine: nodes.Stage) -> bool:
    """Whether a session touches one engine and its pools while it holds something, and no others.

    Then all indices in the session are the same expression, and nothing that it reads changes in a hold.
    """
    growing = _growing(program)
    pools = {pool.name: pool for pool in program.pools}
    references = [
        node
        for statement in program.session
        for node in descendants(statement)
        if (isinstance(node, nodes.PoolRef) and pools[node.name].count > 1)
        or (isinstance(node, nodes.StageRef) and node.name == engine.name)
    ]
    used = {unit.pool.name for hold in _holds(program) for unit in hold.units}
    indices = [node.index for node in references]
    if not all(pools[name].count == engine.count for name in used) or any(i != indices[0] for i in indices):
        return False
    for hold in _holds(program):
        first = hold.units[0].pool.name
        if _admitting(program, first) != engine.name or first in growing:
            return False
    return not indices or indices[0] is None or _stands_still(indices[0], program)


def _stands_still(index: nodes.Expr, program: nodes.Program) -> bool:
    """Whether ``index`` reads attributes only, and no statement inside a hold changes one of them."""
    read = {node.name for node in descendants(index) if isinstance(node, nodes.Attribute)}
    if not reading.attributes_only((index,)) or read & _GIVEN:
        return False
    for hold in _holds(program):
        for statement in statements(hold.body):
            match statement:
                case nodes.Set(attribute=name) | nodes.Choose(attribute=name):
                    if name in read:
                        return False
                case nodes.Turn():
                    return False
    return True


# --- arrivals -------------------------------------------------------------------------------------------


def arrives_calmly(program: nodes.Program) -> bool:
    """Whether an arriving session blocks or ends before it takes anything of a pool that grows.

    A run takes nothing, and a hold that an engine admits blocks.
    """
    growing = _growing(program)
    for statement in program.session:
        if isinstance(statement, nodes.Hold):
            first = statement.units[0].pool.name
            return _admitting(program, first) is not None and first not in growing
        inside = statements((statement,))
        if not all(isinstance(inner, _PLAIN | nodes.Run | nodes.Branch) for inner in inside):
            return False
    return True
