"""What is wrong with a program, and which of its nodes is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from serq.ir.nodes import Node
from serq.source import Diagnostic, Severity


class Problem(msgspec.Struct, frozen=True):
    """One mistake, or one thing that looks unintended."""

    code: str
    message: str
    node: Node
    """The node to blame, or the node that holds the field to blame."""
    part: str
    """A field of the node; empty: the node itself."""
    owner: str
    """Where the node is, for a program without a text."""
    severity: Severity
    help: str | None
    whole: bool
    """Whether it is certain only if no part of the program is missing."""

    @property
    def diagnostic(self) -> Diagnostic:
        """The message for a program without a text."""
        return Diagnostic(self.code, self.message, owner=self.owner, severity=self.severity, help=self.help)


class Findings(msgspec.Struct):
    """Problems as they are found."""

    problems: list[Problem] = msgspec.field(default_factory=list)
    owner: str = "program"

    def error(
        self,
        code: str,
        message: str,
        node: Node,
        part: str = "",
        *,
        help: str | None = None,
        whole: bool = False,
    ) -> None:
        """A mistake."""
        self.problems.append(Problem(code, message, node, part, self.owner, "error", help, whole))

    def warning(
        self, code: str, message: str, node: Node, part: str = "", *, help: str | None = None
    ) -> None:
        """Something that is legal and looks unintended."""
        self.problems.append(Problem(code, message, node, part, self.owner, "warning", help, True))

    @contextmanager
    def inside(self, owner: str) -> Iterator[None]:
        """Name the place of what is found inside."""
        outer, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = outer
