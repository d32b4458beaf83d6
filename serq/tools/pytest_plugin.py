"""pytest runs programs as tests: every `.sq` file that has an `expect` is one item an expectation.

Installed with serq, it needs no configuration; `-p no:serq` switches it off. A file is run once, when its
first item is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from serq.testing import Verdict


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ProgramFile | None:
    """Collect the programs that expect something."""
    if file_path.suffix != ".sq":
        return None
    from serq.testing import expects

    if not expects(file_path):
        return None
    program: ProgramFile = ProgramFile.from_parent(parent, path=file_path)
    return program


class ProgramFile(pytest.File):
    """A program; its run is shared by its items."""

    _verdict: Verdict | None = None

    def collect(self) -> Iterator[ExpectationItem]:
        """One item an expectation; one for the whole file where it does not compile."""
        from serq import api
        from serq.errors import SerqError
        from serq.ir.printer import expectation

        try:
            expectations = api.compile(self.path).ir.expectations
        except SerqError:
            expectations = ()
        names = [expectation(node) for node in expectations] or ["compile"]
        for number, name in enumerate(names):
            yield ExpectationItem.from_parent(self, name=name, number=number)

    @property
    def verdict(self) -> Verdict:
        """What became of the file, which is run when this is first asked."""
        from serq.testing import check_file

        if self._verdict is None:
            self._verdict = check_file(self.path)
        return self._verdict


class ExpectationError(Exception):
    """An expectation does not hold, or its program does not compile or run; says what `serq test` says."""


class ExpectationItem(pytest.Item):
    """One expectation of a program."""

    def __init__(self, *, number: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._number = number

    def runtest(self) -> None:
        """Run the program, if no other item has, and raise ExpectationError unless this one holds."""
        assert isinstance(self.parent, ProgramFile)
        verdict = self.parent.verdict
        if verdict.error is not None:
            raise ExpectationError(verdict.error)
        outcome = verdict.outcomes[self._number]
        if not outcome.holds:
            raise ExpectationError(outcome.diagnostic("error").render())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message alone, without a traceback."""
        if isinstance(excinfo.value, ExpectationError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file and the name of the item."""
        return self.path, None, self.name
