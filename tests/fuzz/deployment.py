"""What a generated program declares, as far as the statements must know it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

StageKind = Literal["fifo", "ps", "delay", "step"]


@dataclass(frozen=True)
class PoolSpec:
    """A pool: how it may be named and what it holds."""

    name: str
    count: int = 1
    cap: int | None = None
    block: int | None = None
    lifo: bool = False
    engine: str | None = None
    spills: bool = False

    @property
    def room(self) -> int:
        """A number of units that usually fits."""
        return self.cap if self.cap is not None else 24


@dataclass(frozen=True)
class StageSpec:
    """A stage; ``memory`` and ``flow`` say what may be run there and how."""

    name: str
    kind: StageKind
    count: int = 1
    memory: str | None = None
    flow: bool = False


@dataclass(frozen=True)
class Deployment:
    """All pools and stages, and the names the program may read."""

    pools: tuple[PoolSpec, ...] = ()
    stages: tuple[StageSpec, ...] = ()
    sessions: int = 4
    hidden: bool = False
    traced: bool = False
    functions: tuple[str, ...] = ()
    lets: tuple[str, ...] = ()
    procedures: tuple[str, ...] = ()

    def pool(self, name: str) -> PoolSpec:
        return next(pool for pool in self.pools if pool.name == name)

    def steps(self) -> tuple[StageSpec, ...]:
        return tuple(stage for stage in self.stages if stage.kind == "step")

    def plain(self) -> tuple[StageSpec, ...]:
        return tuple(stage for stage in self.stages if stage.kind != "step")

    def flows(self) -> tuple[StageSpec, ...]:
        return tuple(stage for stage in self.stages if stage.flow)


def random_deployment(rng: Random) -> Deployment:
    """Pools and stages of a program; options are written by ``declarations``."""
    family = 2 if rng.random() < 0.2 else 1
    engines = _engines(rng, family)
    pools = [_pool(rng, f"p{i}", rng.choice((1, 1, 1, 2))) for i in range(rng.choice((0, 1, 1, 2, 2, 3)))]
    if engines:
        pools += _engine_pools(rng, engines[0])
        rng.shuffle(pools)
    if rng.random() < 0.15 and any(pool.count == 1 and not pool.engine for pool in pools):
        pools = _with_spill(rng, pools)
    admitting = any(pool.engine for pool in pools)
    stages = [StageSpec("think", "delay"), *_plain_stages(rng, sharing=not admitting), *engines]
    if not admitting and rng.random() < 0.25:
        stages += [StageSpec("up", "ps", flow=True), StageSpec("down", "ps", rng.choice((1, 2)), flow=True)]
    rng.shuffle(stages)
    return Deployment(
        pools=tuple(pools),
        stages=tuple(stages),
        sessions=rng.choice((2, 3, 3, 4, 4, 5, 6, 8)),
        hidden=rng.random() < 0.3,
        traced=rng.random() < 0.2,
        functions=tuple(name for name in ("wave", "clip") if rng.random() < 0.3),
        procedures=tuple(name for name in ("take", "press", "twice") if pools and rng.random() < 0.1),
        lets=tuple(name for name in ("unit", "pace") if rng.random() < 0.4),
    )


def _engines(rng: Random, family: int) -> list[StageSpec]:
    if rng.random() < 0.4:
        return []
    memory = "kv" if rng.random() < 0.85 else None
    engines = [StageSpec("gpu", "step", family, memory)]
    if rng.random() < 0.1:
        engines.append(StageSpec("decode", "step"))
    return engines


def _engine_pools(rng: Random, engine: StageSpec) -> list[PoolSpec]:
    pools = []
    if rng.random() < 0.6:
        via = engine.name if rng.random() < 0.75 else None
        pools.append(PoolSpec("reqs", engine.count, rng.choice((1, 2, 2, 3, 4)), engine=via))
    lifo = rng.random() < 0.8
    block = rng.choice((None, None, 2, 4))
    cap = rng.choice((8, 10, 12, 14, 16, 20)) if lifo else rng.choice((None, 10, 14, 20, 30))
    via = engine.name if rng.random() < 0.3 else None
    pools.append(PoolSpec("kv", engine.count, cap, block, lifo, via))
    return pools


def _pool(rng: Random, name: str, count: int) -> PoolSpec:
    cap = rng.choice((None, 3, 5, 6, 7, 8, 8, 9, 10, 12, 14))
    return PoolSpec(name, count, cap, rng.choice((None, None, 2, 3, 4)), rng.random() < 0.45)


def _with_spill(rng: Random, pools: list[PoolSpec]) -> list[PoolSpec]:
    """One pool spills into a tier that never fills (the reference overfills a full one)."""
    index = rng.choice([i for i, pool in enumerate(pools) if pool.count == 1 and not pool.engine])
    pools[index] = replace(pools[index], spills=True, cap=rng.choice((4, 6, 8, 10)))
    tier = PoolSpec("tier", cap=rng.choice((None, 1000)), block=rng.choice((None, pools[index].block)))
    pools.insert(rng.randrange(len(pools) + 1), tier)
    return pools


def _plain_stages(rng: Random, sharing: bool) -> list[StageSpec]:
    """Stages without memory; the reference stalls a job that joins a `ps` stage while an engine admits."""
    kinds: tuple[StageKind, ...] = ("fifo", "fifo", "ps", "ps", "delay") if sharing else ("fifo", "delay")
    return [
        StageSpec(f"s{i}", rng.choice(kinds), rng.choice((1, 1, 1, 2)))
        for i in range(rng.choice((0, 1, 1, 2)))
    ]
