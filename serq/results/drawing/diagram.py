"""What is drawn of a program: boxes and the ways between them, read off the session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from serq.ir import nodes
from serq.results.drawing.labels import arrival_lines, pool_lines, stage_lines

CLIENTS: Final = "clients"
"""The key of the box where sessions come from and where they end."""

BoxKind = Literal["clients", "stage", "pool"]
WayKind = Literal["visit", "hold", "transfer"]


@dataclass(frozen=True, slots=True)
class Box:
    """Something that is drawn as a box; ``count`` members of a family are drawn as a stack."""

    key: str
    kind: BoxKind
    title: str
    lines: Sequence[str]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Way:
    """An arrow between two boxes.

    A *visit* is the order in which a session goes from stage to stage, with what it does at the second one; a
    *hold* ties a pool to a stage that is visited while the pool is held; a *transfer* moves KV or spilled
    units.
    """

    start: str
    end: str
    kind: WayKind
    label: str = ""


@dataclass(slots=True)
class Diagram:
    """Boxes in the order of their first visit, and the ways between them, each once."""

    boxes: list[Box] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)

    def add(self, way: Way) -> None:
        """Draw a way, unless it is drawn already."""
        if way not in self.ways:
            self.ways.append(way)

    def of_kind(self, kind: BoxKind) -> list[Box]:
        """The boxes of one kind, in order."""
        return [box for box in self.boxes if box.kind == kind]


def diagram(program: nodes.Program) -> Diagram:
    """The diagram of a program. Stages and pools that no session uses come last."""
    walk = _Walk()
    ends = walk.block(program.session, [CLIENTS])
    for end in ends:
        if end != CLIENTS:
            walk.drawn.add(Way(end, CLIENTS, "visit"))
    walk.drawn.ways.extend(_beside(program))
    stages = {stage.name: stage for stage in program.stages}
    order = dict.fromkeys([*(name for name in walk.visited if name in stages), *stages])
    workload = Box(CLIENTS, "clients", "clients", arrival_lines(program.workload))
    boxes = [Box(n, "stage", n, stage_lines(stages[n].kind), stages[n].count) for n in order]
    pools = [Box(f"pool {p.name}", "pool", p.name, pool_lines(p), p.count) for p in program.pools]
    walk.drawn.boxes = [workload, *boxes, *pools]
    return walk.drawn


def _beside(program: nodes.Program) -> Iterable[Way]:
    """What moves units without a session: engines' memory, spills, connectors."""
    engines = {stage.name: stage.kind for stage in program.stages}
    for name, kind in engines.items():
        if isinstance(kind, nodes.Step) and kind.memory is not None:
            yield Way(f"pool {kind.memory}", name, "hold")
        if isinstance(kind, nodes.Vllm) and kind.kv_connector is not None:
            over = next(c.over.name for c in program.connectors if c.name == kind.kv_connector)
            yield Way(name, over, "transfer", kind.kv_connector)
    for pool in program.pools:
        if pool.spill is not None:
            yield Way(f"pool {pool.name}", f"pool {pool.spill.tier.name}", "transfer", "spill")


class _Walk:
    """Goes through a session and notes every way from a stage to the next."""

    def __init__(self) -> None:
        self.drawn = Diagram()
        self.visited: list[str] = []
        self._held: list[str] = []

    def block(self, statements: Sequence[nodes.AnyStatement], places: list[str]) -> list[str]:
        """Where a session may be after the statements, if it was at one of ``places`` before."""
        for statement in statements:
            places = self._statement(statement, places)
        return places

    def _statement(self, node: nodes.AnyStatement, places: list[str]) -> list[str]:
        match node:
            case nodes.Run():
                label: str = node.mode or ("flow" if len(node.stages) > 1 else "run")
                for stage in node.stages:
                    places = self._visit(stage.name, label, places)
            case nodes.Request():
                label = f"request {node.handle}"
                if node.fetched is not None:
                    label += f" from {node.fetched.handle}"
                places = self._visit(node.stage.name, label, places)
            case nodes.Hold():
                self._held += [unit.pool.name for unit in node.units]
                places = self.block(node.body, places)
                del self._held[-len(node.units) :]
            case nodes.Branch():
                then, otherwise = self.block(node.then, places), self.block(node.otherwise, places)
                places = list(dict.fromkeys([*then, *otherwise]))
            case nodes.Loop():
                places = self._loop(node, places)
            case nodes.End():
                for place in places:
                    if place != CLIENTS:
                        self.drawn.add(Way(place, CLIENTS, "visit"))
                places = []
            case _:
                pass
        return places

    def _loop(self, node: nodes.Loop, places: list[str]) -> list[str]:
        """The body twice: the second time from where the first one ends, so the way back is drawn."""
        again = self.block(node.body, places)
        self.block(node.body, again)
        return []

    def _visit(self, stage: str, label: str, places: list[str]) -> list[str]:
        if stage not in self.visited:
            self.visited.append(stage)
        for place in places:
            self.drawn.add(Way(place, stage, "visit", label))
        for pool in self._held:
            self.drawn.add(Way(f"pool {pool}", stage, "hold"))
        return [stage]
