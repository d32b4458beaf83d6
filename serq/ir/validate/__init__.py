"""What every program must obey, whoever wrote it: a person, a tool, a JSON file.

Checks are by subject: ``structure`` (numbering, depth), ``declarations``, ``serving`` (engines,
connectors, gauges), ``expectations`` (and objectives), ``session`` (statements), ``requests``,
``expressions`` (what may be read when), ``staleness`` (the header lint), ``progress`` (time that stands
still), ``suspicion`` (warnings).
"""

from __future__ import annotations

from serq.errors import CompileError
from serq.ir.nodes import Program
from serq.ir.validate.declarations import Declarations
from serq.ir.validate.expectations import Expectations
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings, Problem
from serq.ir.validate.progress import Progress
from serq.ir.validate.serving import Engines
from serq.ir.validate.session import Session
from serq.ir.validate.staleness import Staleness
from serq.ir.validate.structure import check_depth, check_structure
from serq.ir.validate.suspicion import Suspicion
from serq.source import Diagnostic

__all__ = ["Problem", "require_horizon", "validate"]


def require_horizon(program: Program) -> None:
    """Raise CompileError for a program that does not say how long to run (R-A-007).

    No part of :func:`validate`, because a horizon may still be given from outside.
    """
    if program.run.horizon is None:
        help = "write `run { horizon 600; }`, or give a horizon from outside (`--horizon 600`)"
        message = "the program does not say how long to run"
        raise CompileError([Diagnostic("E432", message, owner="run", help=help)])


def validate(program: Program) -> tuple[Problem, ...]:
    """Everything that is wrong with a program, and what looks unintended; each names the node to blame."""
    findings = Findings()
    check_depth(program, findings)
    if findings.problems:
        return tuple(findings.problems)
    index = Index(program)
    expressions = Expressions(index, findings)
    check_structure(index, findings)
    Declarations(index, findings, expressions).check()
    Engines(index, findings, expressions).check()
    Expectations(index, findings, expressions).check()
    Session(index, findings, expressions).check()
    Staleness(index, findings).check()
    Progress(index, findings).check()
    Suspicion(index, findings).check()
    return tuple(findings.problems)
