"""Every error a person can meet, and nothing else. The exit code each one maps to is its ``exit_code``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serq.results import Report
    from serq.runtime.records import Records
    from serq.source import Diagnostic


class SerqError(Exception):
    """The base of every error that serq raises on purpose."""

    exit_code = 1


class UsageError(SerqError):
    """A call or a command line that cannot be meant: an unknown option, a negative horizon."""

    exit_code = 2


class WrongTypeError(UsageError, TypeError):
    """An argument of a Python call that is of a type it cannot have: the text "5" where a number is meant."""


class CompileError(SerqError):
    """A program that does not compile, with every independent reason found (``diagnostics``)."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(diagnostic.render() for diagnostic in self.diagnostics))


class DataError(SerqError):
    """A file that cannot be used: missing, a folder, binary, or a trace with a broken row."""


class MissingFileError(DataError):
    """A file that is not there."""


class RunError(SerqError):
    """A run that cannot go on: a rule of the language was broken at some instant.

    ``time`` is the instant in the model, ``session`` the serial number of the session (None: the
    deployment itself), ``diagnostic`` the statement, where it is known; ``code`` is the stable name of the
    rule that was broken. The simulation sets ``records`` to what it had recorded by then
    (``Records.stopped`` says why it ends there), so nothing recorded is lost; :func:`serq.run` sets
    ``report``.
    """

    records: Records | None = None
    report: Report | None = None

    def __init__(
        self,
        message: str,
        *,
        time: float | None = None,
        session: int | None = None,
        diagnostic: Diagnostic | None = None,
        code: str = "run-error",
    ) -> None:
        self.message = message
        self.code = code
        self.time = time
        self.session = session
        self.diagnostic = diagnostic
        super().__init__(message)

    def __str__(self) -> str:
        who = "" if self.session is None else f", session {self.session}"
        when = "" if self.time is None else f"at time {self.time:.10g}{who}: "
        where = "" if self.diagnostic is None else "\n" + self.diagnostic.render()
        return f"{when}{self.message}{where}"


class InterruptedRunError(RunError):
    """The person at the keyboard stopped the run (Ctrl-C); raised by the simulation, with ``records``."""

    exit_code = 130
