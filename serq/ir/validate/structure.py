"""The frame of a program: depth, numbering, names that are declared once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from serq.ir.chains import continuation
from serq.ir.limits import MAX_CHAIN, MAX_DEPTH, MAX_MEMBERS
from serq.ir.nodes import (
    IR_VERSION,
    Aggregate,
    Choose,
    Connector,
    Draw,
    Gauge,
    Node,
    Observe,
    Pool,
    Program,
    Request,
    Set,
    Stage,
    Statement,
)
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings
from serq.ir.walk import children, descendants

_NAME = re.compile(r"[^\W\d]\w*")
"""A letter or `_`, then letters, digits, `_` (R-A-002)."""


def check_depth(program: Program, findings: Findings) -> None:
    """Blocks and expressions are not nested deeper than whatever walks a program can go."""
    stack: list[tuple[Node, int, int, int]] = [(program, 0, 0, 0)]
    while stack:
        node, blocks, depth, links = stack.pop()
        if isinstance(node, Statement):
            blocks, depth = blocks + 1, 0
        else:
            depth += 1
        if blocks > MAX_DEPTH + 1 or depth > MAX_DEPTH:
            what = "blocks" if depth == 0 else "expressions"
            findings.error("E108", f"{what} are nested more than {MAX_DEPTH} deep", node)
            return
        if links + 2 > MAX_CHAIN:
            findings.error("E108", f"this chain has more than {MAX_CHAIN} terms", node)
            return
        further = continuation(node)
        for child in children(node):
            if child is further:
                stack.append((child, blocks, depth - 1, links + 1))
            else:
                stack.append((child, blocks, depth, 0))


def check_structure(index: Index, findings: Findings) -> None:
    """What the text language cannot get wrong, and a hand-written IR file can."""
    program = index.program
    if program.version != IR_VERSION:
        findings.error("E502", f"this program has IR version {program.version}, not {IR_VERSION}", program)
    _families("pool", program.pools, findings)
    _families("stage", program.stages, findings)
    for expected, statement in enumerate(index.all_statements):
        if statement.id != expected:
            message = f"statements are numbered in order from 0; number {expected} is called {statement.id}"
            findings.error("E431", message, statement, whole=True)
            break
    _names(program, findings)
    sections: list[tuple[str, Iterable[Node]]] = [
        ("workload", (*program.workload.init, *program.workload.turn)),
        ("session", program.session),
        *((f"pool `{pool.name}`", (pool,)) for pool in program.pools),
        *((f"stage `{stage.name}`", (stage,)) for stage in program.stages),
        *((f"connector `{connector.name}`", (connector,)) for connector in program.connectors),
    ]
    for owner, nodes in sections:
        with findings.inside(owner):
            _sites(nodes, findings)


def _families(what: str, families: tuple[Pool, ...] | tuple[Stage, ...], findings: Findings) -> None:
    seen: set[str] = set()
    for node in families:
        if node.name in seen:
            findings.error("E219", f"{what} `{node.name}` is declared twice", node)
        seen.add(node.name)
        if not (1 <= node.count <= MAX_MEMBERS) or (node.count > 1 and not node.family):
            message = f"{what} `{node.name}` cannot have {node.count} members"
            findings.error("E431", message, node)


def _names(program: Program, findings: Findings) -> None:
    for node in descendants(program):
        match node:
            case Pool(name=name) | Stage(name=name) | Set(attribute=name) | Choose(attribute=name):
                pass
            case Observe(series=name) | Aggregate(variable=name) | Request(handle=name):
                pass
            case Connector(name=name) | Gauge(name=name):
                pass
            case _:
                continue
        if not _NAME.fullmatch(name):
            message = f"`{name}` is not a name: a letter or `_`, then letters, digits and `_`"
            findings.error("E431", message, node)


def _sites(nodes: Iterable[Node], findings: Findings) -> None:
    seen: set[int] = set()
    for node in nodes:
        for inner in descendants(node):
            if isinstance(inner, Draw):
                if inner.site in seen or inner.site < 0:
                    message = f"two draws of this section are at site {inner.site}: they would draw the same"
                    findings.error("E431", message, inner)
                seen.add(inner.site)
