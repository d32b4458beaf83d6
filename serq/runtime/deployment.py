"""A program's pools and stages as objects of one run, wired as it declares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.walk import descendants
from serq.kernels.registry import PricedStage
from serq.runtime.codegen import reading
from serq.runtime.codegen.model import Model
from serq.runtime.engine import Engine
from serq.runtime.faults import checked_amount
from serq.runtime.flows import FlowNetwork, FlowStage
from serq.runtime.grouped_scheduler import GroupedScheduler
from serq.runtime.hold import innermost
from serq.runtime.hold_queue import ChangingKeyQueue, FixedKeyQueue, HoldQueue
from serq.runtime.planned_run import PlanningStage
from serq.runtime.pool import Pool, SpillPlan
from serq.runtime.pricing import PRICED_TOTALS, Pricing
from serq.runtime.random import DrawStream, RandomSource
from serq.runtime.serving.engines import EngineMode, Engines, not_fast
from serq.runtime.serving.transfer_link import TransferLink
from serq.runtime.session import Session
from serq.runtime.stage import BatchingStage, Stage
from serq.runtime.stations import DelayStation, FifoStation, SharedStation, Station
from serq.runtime.step_scheduler import StepRules, StepScheduler
from serq.runtime.unwatched import arrives_calmly, is_unwatched
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.world import World

if TYPE_CHECKING:
    from serq.runtime.serving.assembly import EngineAssembly

Functions = dict[str, Any]
"""The generated functions of a program by name."""


class Deployment:
    """The pools and stages of a run by name, one object a member."""

    def __init__(
        self,
        model: Model,
        functions: Functions,
        world: World,
        random: RandomSource,
        *,
        keep_rows: bool = False,
        folder: Path = Path(),
        engine: EngineMode = "auto",
    ) -> None:
        self._model = model
        self._functions = functions
        self._world = world
        self._random = random
        self._mode = engine
        program = model.program
        self.pricing = Pricing(program, functions, folder)
        self.links = self._links(functions)
        self._assembly = self._assemble(keep_rows, engine)
        self.serving = self._assembly or Engines([])
        self.pools = {
            pool.name: tuple(self._pool(pool, i) for i in range(pool.count)) for pool in program.pools
        }
        world.pools = [member for members in self.pools.values() for member in members]
        for number, member in enumerate(world.pools):
            member.number = number
        self._network = FlowNetwork(world.clock, world, program.share or "maxmin")
        self._crossed = _stages_of_flows(program)
        self.stages = {
            stage.name: tuple(self._stage(stage, i) for i in range(stage.count)) for stage in program.stages
        }
        self._set_reactions()
        for pool in program.pools:
            self._wire(pool)

    def _assemble(self, keep_rows: bool, mode: EngineMode) -> EngineAssembly | None:
        """What builds `vllm` stages: a third of the start of a run, so imported where there is one."""
        program = self._model.program
        if not any(isinstance(stage.kind, nodes.Vllm) for stage in program.stages):
            return None
        from serq.runtime.serving.assembly import EngineAssembly

        return EngineAssembly(
            program, self._world, self._functions, self.pricing, self.links, keep_rows=keep_rows, mode=mode
        )

    def _links(self, functions: Functions) -> dict[str, TransferLink]:
        """What the connectors of the program take, by name."""
        clock, names = self._world.clock, self._model.connectors
        return {
            connector.name: TransferLink(
                connector, names[connector.name], functions, clock, self._random.connector(connector.name)
            )
            for connector in self._model.program.connectors
        }

    def members(self) -> Iterator[Stage]:
        """All stage members in the order of declaration."""
        for members in self.stages.values():
            yield from members

    def engines(self, name: str) -> list[Engine]:
        """The members of a `step` stage."""
        return [stage for stage in self.stages[name] if isinstance(stage, Engine)]

    # --- pools ------------------------------------------------------------------------------------------

    def _pool(self, pool: nodes.Pool, member: int) -> Pool:
        functions, name = self._functions, self._model.pools[pool.name]
        queue: HoldQueue = HoldQueue()
        if pool.queue_by:
            key = functions[f"queue_key_{name}"]
            queue = FixedKeyQueue(key) if reading.attributes_only(pool.queue_by) else ChangingKeyQueue(key)
        spill = () if pool.spill is None else (pool.spill.work, pool.spill.condition)
        draws = self._random.pool(pool.name, member) if reading.draws((*pool.evict_by, *spill)) else None
        return Pool(
            pool.name,
            member,
            pool.capacity,
            pool.block,
            lifo=pool.preempt == "lifo",
            queue=queue,
            evict_key=functions[f"evict_key_{name}"] if pool.evict_by else None,
            draws=draws,
            reads_attributes=reading.reads_session((*pool.evict_by, *spill)),
        )

    def _wire(self, declaration: nodes.Pool) -> None:
        """Connect a pool with the engines that admit to it and the tier it spills to."""
        members = self.pools[declaration.name]
        if declaration.admit_via is not None:
            for pool in members:
                pool.admitted_by_engine = True
            for pool, engine in _paired(members, self.stages[declaration.admit_via]):
                if isinstance(engine, Engine):
                    engine.scheduler.queues.append(pool)
                    pool.engines.append(engine)
        spill = declaration.spill
        if spill is None:
            return
        name = self._model.pools[declaration.name]
        tiers = _referenced(self.pools[spill.tier.name], spill.tier.index, len(members))
        links = _referenced(self.stages[spill.link.name], spill.link.index, len(members))
        for pool, tier, link in zip(members, tiers, links, strict=True):
            work, when = self._functions[f"spill_work_{name}"], self._functions[f"spill_when_{name}"]
            pool.spill = SpillPlan(tier, _sender(link), work, when)

    # --- stages -----------------------------------------------------------------------------------------

    def _stage(self, stage: nodes.Stage, member: int) -> Stage:
        world, name = self._world, self._model.stages[stage.name]
        match stage.kind:
            case nodes.Fifo(servers):
                return FifoStation(stage.name, member, world, servers)
            case nodes.Delay():
                return DelayStation(stage.name, member, world)
            case nodes.ProcessorSharing(capacity):
                if stage.name in self._crossed and isinstance(capacity, nodes.Number):
                    return FlowStage(stage.name, member, world, capacity.value, self._network)
                draws = self._stage_draws(stage, member)
                function = self._functions[f"capacity_{name}"]
                return SharedStation(stage.name, member, world, lambda present: function(present, draws))
            case nodes.Step():
                return self._engine(stage, stage.kind, member)
            case nodes.Vllm():
                draws = self._stage_draws(stage, member)
                assert self._assembly is not None
                return self._assembly.build(stage, stage.kind, member, name, draws)

    def _stage_draws(self, stage: nodes.Stage, member: int) -> DrawStream | None:
        return self._random.stage(stage.name, member) if reading.draws((stage,)) else None

    def _engine(self, stage: nodes.Stage, step: nodes.Step, member: int) -> Engine:
        world, name = self._world, self._model.stages[stage.name]
        draws = self._stage_draws(stage, member)
        functions = self._functions

        def drawing(option: str) -> Callable[[Any], float] | None:
            function = functions.get(f"{option}_{name}")
            return None if function is None else lambda totals: function(totals, draws)

        budget = drawing("budget")
        rules = StepRules(
            budget=budget,
            chunk=drawing("chunk"),
            serve_key=functions.get(f"serve_key_{name}"),
            serve_only=functions.get(f"serve_only_{name}"),
            exclusive_prefill=step.exclusive_prefill,
            decodes_first=step.serve_by == _DECODE_FIRST,
            order_reads=reading.variables((step.budget, step.chunk, *step.serve_by, step.serve_only)),
            cost_reads=PRICED_TOTALS if isinstance(step.cost, nodes.Via) else reading.variables((step.cost,)),
        )
        kind = StepScheduler if self._mode == "reference" else GroupedScheduler
        scheduler = kind(rules, world.holdings, world.run_admitted)
        memory = None
        if step.memory is not None:
            pools = self.pools[step.memory]
            memory = pools[member if len(pools) > 1 else 0]
            memory.memory_of.append(scheduler)
        cost = drawing("cost")
        if isinstance(step.cost, nodes.Via):
            priced = PricedStage(stage.name, self.pricing.folder)
            cost = self.pricing.member(step.cost, priced).seconds_of_totals
        assert cost is not None
        reason = _never_plans(step)
        if reason is not None and self._mode == "fast":
            raise not_fast(stage.name, reason)
        return Engine(stage.name, member, world, scheduler, cost, memory, reason)

    def _set_reactions(self) -> None:
        """Tell the world which stages act after an instant has settled."""
        world = self._world
        for rank, stage in enumerate(self.members()):
            world.stage_count = rank + 1
            stage.rank = 2 * rank
            if isinstance(stage, BatchingStage | SharedStation):
                world.reacting[stage.rank] = stage
        world.network = self._network
        world.planners = [stage for stage in self.members() if isinstance(stage, PlanningStage)]
        program = self._model.program
        world.unwatched = self._mode != "reference" and is_unwatched(program)
        if world.unwatched:
            world.calm_arrivals = arrives_calmly(program)
            world.clock.before_others = world.cut_plans
            return
        world.followed = [stage for stage in self.members() if isinstance(stage, Engine)]
        world.headers_change = _headers_change(program)

    # --- runs -------------------------------------------------------------------------------------------

    def run(self, session: Session, stage: Station | FlowStage, work: float) -> None:
        """`run stage (work)` at a station; no work only yields to the other ready sessions (R-A-072)."""
        if checked_amount(work, f"`run {stage.name}`") > 0.0:
            stage.start(session, work)
        else:
            self._world.wake(session)

    def run_flow(self, session: Session, stages: tuple[FlowStage, ...], work: float) -> None:
        """`run a, b (work)` (R-B-060)."""
        names = ", ".join(stage.name for stage in stages)
        if checked_amount(work, f"`run {names}`") > 0.0:
            self._network.start(session, work, stages)
        else:
            self._world.wake(session)

    def run_tokens(
        self, session: Session, engine: Engine, tokens: float, decoding: bool, growing: Pool | None
    ) -> None:
        """`run engine prefill|decode (tokens)` (R-B-015)."""
        if checked_amount(tokens, f"`run {engine.name}`") > 0.0:
            engine.start(session, tokens, decoding, growing)
            return
        allocation = None if growing is None else innermost(session, growing)
        if allocation is not None:
            allocation.hold.resumed_on = growing
        self._world.wake(session)


_DECODE_FIRST = (nodes.Conditional(nodes.Variable("decoding"), nodes.Number(0.0), nodes.Number(1.0)),)
"""What `serve decode first` stands for (R-B-036)."""


def _never_plans(step: nodes.Step) -> WalkReason | None:
    """Why a stage can plan no iteration ahead, whatever its residents do."""
    if isinstance(step.cost, nodes.Via) or not reading.stands_alone(step.cost):
        return WalkReason.COST
    if step.serve_only is not None or step.exclusive_prefill or step.serve_by not in ((), _DECODE_FIRST):
        return WalkReason.SCHEDULER
    limits = [limit for limit in (step.budget, step.chunk) if limit is not None]
    changing = reading.variables(limits) - {"inf", "residents", "decoders"}
    return None if not changing and all(map(reading.stands_alone, limits)) else WalkReason.LIMITS


def _headers_change(program: nodes.Program) -> bool:
    """Whether who is admitted to a pool, or with what, may change while nothing happens there."""
    read = [key for pool in program.pools for key in pool.queue_by]
    for node in descendants(program):
        if isinstance(node, nodes.Hold):
            for unit in node.units:
                read += [unit.units, *(() if unit.reserve is None else (unit.reserve,))]
    return not reading.attributes_only(read)


def _stages_of_flows(program: nodes.Program) -> frozenset[str]:
    """Stages that some run crosses together with others: all runs there are flows (R-B-060)."""
    return frozenset(
        stage.name
        for node in descendants(program)
        if isinstance(node, nodes.Run) and len(node.stages) > 1
        for stage in node.stages
    )


def _paired(pools: tuple[Pool, ...], stages: tuple[Stage, ...]) -> Iterable[tuple[Pool, Stage]]:
    """Families join member by member; a family of one serves every member (R-B-017)."""
    count = max(len(pools), len(stages))
    return ((pools[i % len(pools)], stages[i % len(stages)]) for i in range(count))


def _referenced(members: tuple[Any, ...], index: nodes.Expr | None, count: int) -> list[Any]:
    """What each of ``count`` pools refers to: one member for all, or a family member by member."""
    if isinstance(index, nodes.Number):
        return [members[int(index.value)]] * count
    return [members[i % len(members)] for i in range(count)]


def _sender(link: Stage) -> Callable[[float], None]:
    """What starts a job of nobody's on ``link``."""
    assert isinstance(link, Station | FlowStage)

    def send(work: float) -> None:
        if not work >= 0.0:
            raise RunError(
                f"spill over `{link.name}`: work {work:.10g} is not an amount", code="negative-amount"
            )
        if work > 0.0:
            link.start(None, work)

    return send
