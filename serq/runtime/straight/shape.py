"""Which programs are straight: a hold of a slot and of KV memory, in it a prefill and a decode.

That is how the scheduling of vLLM is written in the base language. Where all amounts are whole numbers,
nothing that happens is irregular: residents decode a token in every iteration, the memory grows by whole
blocks, and who lacks some preempts the one admitted last.
"""

from __future__ import annotations

from dataclasses import dataclass

from serq.ir import nodes
from serq.ir.walk import descendants
from serq.runtime.codegen import reading
from serq.runtime.unwatched import is_unwatched

_PLAIN = nodes.Turn | nodes.Set | nodes.Observe | nodes.Choose
_OPEN = nodes.Batch | nodes.Poisson | nodes.Renewal | nodes.Traced
_DECODE_FIRST = (nodes.Conditional(nodes.Variable("decoding"), nodes.Number(0.0), nodes.Number(1.0)),)
_LARGEST_FACTOR = 1024.0


@dataclass(frozen=True, slots=True)
class StraightProgram:
    """The parts of a straight program."""

    engine: nodes.Stage
    slots: nodes.Pool
    memory: nodes.Pool
    before: nodes.Block
    hold: nodes.Hold
    admitted: nodes.Block
    prefill: nodes.Run
    prefilled: nodes.Block
    decode: nodes.Run
    decoded: nodes.Block
    after: nodes.Block
    at_once: bool
    """Whether all sessions arrive at the begin."""


def straight(program: nodes.Program) -> StraightProgram | None:
    """The parts of ``program``, if it is straight."""
    if not isinstance(program.workload.arrive, _OPEN) or not is_unwatched(program):
        return None
    session = _split(program.session, nodes.Hold)
    if session is None:
        return None
    before, hold, after = session
    assert isinstance(hold, nodes.Hold)
    prefilling = _split(hold.body, nodes.Run)
    decoding = None if prefilling is None else _split(prefilling[2], nodes.Run)
    if prefilling is None or decoding is None or len(hold.units) != 2:
        return None
    prefill, decode = prefilling[1], decoding[1]
    assert isinstance(prefill, nodes.Run) and isinstance(decode, nodes.Run)
    plain = (before, prefilling[0], decoding[0], decoding[2], after)
    if not all(_is_plain(statement) for block in plain for statement in block):
        return None
    pools = {pool.name: pool for pool in program.pools}
    slots, memory = (pools[unit.pool.name] for unit in hold.units)
    engine = next(stage for stage in program.stages if isinstance(stage.kind, nodes.Step))
    at_once = isinstance(program.workload.arrive, nodes.Batch)
    found = StraightProgram(
        *(engine, slots, memory, before, hold, prefilling[0], prefill, decoding[0], decode, decoding[2]),
        *(after, at_once),
    )
    return found if _fits(found) and _is_whole(found, program) else None


def _split(block: nodes.Block, kind: type) -> tuple[nodes.Block, nodes.AnyStatement, nodes.Block] | None:
    """What stands before the first statement of ``kind``, itself, and the rest."""
    for place, statement in enumerate(block):
        if isinstance(statement, kind):
            return block[:place], statement, block[place + 1 :]
    return None


def _is_plain(statement: nodes.AnyStatement) -> bool:
    if isinstance(statement, nodes.Branch):
        return all(map(_is_plain, (*statement.then, *statement.otherwise)))
    return isinstance(statement, _PLAIN)


def _fits(found: StraightProgram) -> bool:
    """Whether pools, hold, runs and engine are those of a straight program."""
    slots, memory, hold, engine = found.slots, found.memory, found.hold, found.engine
    step = engine.kind
    assert isinstance(step, nodes.Step)
    slot, units = hold.units
    runs = ((found.prefill, "prefill"), (found.decode, "decode"))
    return (
        slots.name != memory.name
        and slots.admit_via == engine.name
        and slots.count == memory.count == engine.count
        and slots.block is None
        and not slots.queue_by
        and slot.units == nodes.Number(1.0)
        and slot.reserve is None
        and memory.admit_via is None
        and memory.preempt == "lifo"
        and (memory.block is None or memory.block.is_integer())
        and (not keeps_prefixes(hold) or _keeps_regularly(found))
        and slot.pool.index == units.pool.index
        and all(
            run.mode == mode
            and [stage.name for stage in run.stages] == [engine.name]
            and run.growing is not None
            and run.growing.name == memory.name
            and run.growing.index == run.stages[0].index == units.pool.index
            for run, mode in runs
        )
        and step.memory in (None, memory.name)
        and _decides_regularly(step, slots.capacity)
    )


def keeps_prefixes(hold: nodes.Hold) -> bool:
    """Whether something of ``hold`` stays in the caches of its pools, or is looked for there."""
    return hold.cache is not None or hold.reuse is not None


def _keeps_regularly(found: StraightProgram) -> bool:
    """Whether prefixes give way in the order in which they were left; engines of a family may go back."""
    clauses = [expr for expr in (found.hold.reuse, found.hold.cache) if expr is not None]
    evicts_by = (*found.slots.evict_by, *found.memory.evict_by)
    return found.engine.count == 1 and not evicts_by and not reading.draws(clauses)


def _decides_regularly(step: nodes.Step, slots: float) -> bool:
    """Whether every iteration serves all decodes, then prefills in the order of admission."""
    budget = step.budget
    return (
        not isinstance(step.cost, nodes.Via)
        and reading.stands_alone(step.cost)
        and step.chunk is None
        and not step.exclusive_prefill
        and step.serve_only is None
        and step.serve_by in ((), _DECODE_FIRST)
        and (budget is None or (isinstance(budget, nodes.Number) and _covers(budget.value, slots)))
    )


def _covers(budget: float, slots: float) -> bool:
    """Whether all slots can be served at once."""
    return budget.is_integer() and budget >= max(slots, 1.0)


# --- whole numbers --------------------------------------------------------------------------------------


def _is_whole(found: StraightProgram, program: nodes.Program) -> bool:
    """Whether all amounts are whole numbers, if those of the trace are."""
    units = found.hold.units[1]
    amounts = [units.units, found.prefill.work, found.decode.work]
    amounts += [expr for expr in (units.reserve, found.hold.reuse, found.hold.cache) if expr is not None]
    step = found.engine.kind
    assert isinstance(step, nodes.Step)
    whole = _Whole(program, step.budget is not None)
    return all(whole.is_whole(amount) for amount in amounts)


class _Whole:
    """Which expressions are surely whole numbers: of literals, of whole attributes, of what is rounded."""

    def __init__(self, program: nodes.Program, budget: bool) -> None:
        self._budget = budget
        """Whether `budget_left` is a number at all."""
        self._broken = {"think"}
        assigned = [node for node in descendants(program) if isinstance(node, nodes.Set)]
        while True:  # what is assigned from a broken attribute is broken
            broken = {node.attribute for node in assigned if not self.is_whole(node.value)}
            if broken <= self._broken:
                return
            self._broken |= broken

    def is_whole(self, expr: nodes.Expr) -> bool:
        """Whether ``expr`` is a whole number of usual size."""
        match expr:
            case nodes.Number(value):
                return value.is_integer() and abs(value) < 2.0**31
            case nodes.Attribute(name):
                return name not in self._broken
            case nodes.Unary(operator="-", operand=operand):
                return self.is_whole(operand)
            case nodes.Binary(operator="+" | "-", left=left, right=right):
                return self.is_whole(left) and self.is_whole(right)
            case nodes.Binary(operator="*", left=nodes.Number(value), right=right):
                return value.is_integer() and abs(value) <= _LARGEST_FACTOR and self.is_whole(right)
            case nodes.Binary(operator="<" | "<=" | ">" | ">=" | "==" | "!=" | "&&" | "||"):
                return True
            case nodes.Conditional(then=then, otherwise=otherwise):
                return self.is_whole(then) and self.is_whole(otherwise)
            case nodes.StageRead(function="budget_left"):
                return self._budget
            case nodes.PoolRead(function="cachedin"):
                return True
            case nodes.Call(function="min" | "max" | "abs", arguments=arguments):
                return all(map(self.is_whole, arguments))
            case nodes.Call(function="floor" | "ceil", arguments=(inner,)):
                return self._is_number(inner)
        return False

    def _is_number(self, expr: nodes.Expr) -> bool:
        """Whether ``expr`` is a number of usual size, whole or not."""
        match expr:
            case nodes.Draw(distribution="uniform" | "exp" | "erlang", arguments=arguments):
                return all(isinstance(argument, nodes.Number) for argument in arguments)
            case nodes.Binary(operator="/", left=left, right=nodes.Number(value)):
                return value >= 1.0 and self._is_number(left)
        return self.is_whole(expr)
