"""A rule that was broken deep inside a run finds its instant, its session and its statement."""

from __future__ import annotations

from types import TracebackType

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.printer import statement as printed
from serq.ir.walk import descendants
from serq.runtime.codegen.model import GENERATED, Model
from serq.runtime.codegen.source import Origin
from serq.runtime.session import Session
from serq.source import Diagnostic, SourceMap


class StatementError(RunError):
    """A run error of a known statement of a known session, raised outside that session's own code."""

    def __init__(self, message: str, session: Session, statement: int, code: str) -> None:
        super().__init__(message, session=session.number, code=code)
        self.statement = statement


def checked_amount(value: float, what: str) -> float:
    """``value`` if it is an amount: a number, and not negative. Raises RunError otherwise."""
    if value >= 0.0:
        return value
    message = f"{what}: {value:.10g} is not an amount: a number, and not negative"
    raise RunError(message, code="negative-amount")


def checked_cost(cost: float, tokens: float, stage: object) -> float:
    """``cost`` of an iteration of ``tokens`` at ``stage``; one without tokens may cost nothing (R-B-031).

    Raises RunError for tokens that take no time: the engine would run on at one instant for ever (R-B-032).
    """
    if cost > 0.0:
        return cost
    if tokens > 0.0:
        raise RunError(
            f"stage `{stage!r}`: an iteration of {tokens:.10g} tokens costs {cost:.10g}: it must take time",
            code="iteration-costs-nothing",
        )
    return 0.0


def locate(error: RunError, now: float, model: Model, source_map: SourceMap | None) -> None:
    """Give ``error`` its instant, its session, and the statement in whose generated code it happened."""
    if error.time is None:
        error.time = now
    origin, session = _innermost(error.__traceback__, model)
    if isinstance(error, StatementError):
        origin = Origin(statement=error.statement)
    elif error.session is None and session is not None:
        error.session = session.number
    if error.diagnostic is None and origin is not None:
        error.diagnostic = _diagnostic(error.code, origin, model.program, source_map)


def _innermost(trace: TracebackType | None, model: Model) -> tuple[Origin | None, Session | None]:
    """What the innermost generated frame was doing, and for which session."""
    origin, session = None, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == GENERATED:
            origin = model.origins[trace.tb_lineno - 1]
            candidate = trace.tb_frame.f_locals.get("s")
            session = candidate if isinstance(candidate, Session) else session
        trace = trace.tb_next
    return origin, session


def _diagnostic(
    code: str, origin: Origin, program: nodes.Program, source_map: SourceMap | None
) -> Diagnostic:
    message = "the run stopped here"
    if origin.statement is None:
        return Diagnostic(code, message, owner=origin.owner)
    where = None if source_map is None else source_map.locate(origin.statement)
    if where is None:
        return Diagnostic(code, message, owner=_printed(program, origin.statement))
    return Diagnostic(code, message, source=where.source, span=where.span)


def _printed(program: nodes.Program, number: int) -> str:
    """Statement ``number`` as people write it, for programs that have no text."""
    for node in descendants(program):
        if isinstance(node, nodes.Statement) and node.id == number:
            return f"`{printed(node)}`"  # type: ignore[arg-type]
    return f"statement {number}"
