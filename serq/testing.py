"""Programs as tests: run a file as it is written, and see whether its expectations hold.

`serq test` and the pytest plugin are two ways to ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serq.errors import CompileError, DataError, SerqError
from serq.source import SourceFile, read_text

if TYPE_CHECKING:
    from serq.results.expectations import Outcome


@dataclass(frozen=True)
class Verdict:
    """What became of one file: an outcome an expectation, or why there are none."""

    file: Path
    outcomes: Sequence[Outcome] = ()
    error: str | None = None
    """The message of a program that does not compile, or of a run that died."""

    @property
    def failed(self) -> bool:
        """Whether something is wrong with the file."""
        return self.error is not None or any(not outcome.holds for outcome in self.outcomes)

    def render(self) -> str:
        """One line an expectation, a whole message where one does not hold."""
        if self.error is not None:
            return self.error
        if not self.outcomes:
            return f"{self.file}: nothing is expected"
        return "\n".join(_shown(self.file, outcome) for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        out: dict[str, Any] = {"file": str(self.file), "ok": not self.failed}
        if self.error is not None:
            out["error"] = self.error
        out["expectations"] = [outcome.to_json() for outcome in self.outcomes]
        return out


def _shown(file: Path, outcome: Outcome) -> str:
    if not outcome.holds:
        return outcome.diagnostic("error").render()
    where = str(file)
    if outcome.place is not None:
        line, _ = outcome.place.source.position(outcome.place.span.start)
        where = f"{outcome.place.source.name}:{line}"
    return f"{where}: ok: {outcome.text} ({outcome.measured})"


def check_file(file: str | Path) -> Verdict:
    """Run one file with its own settings, seed and trace; the outcomes of its expectations.

    A file without expectations is compiled and not run. Never raises SerqError: the verdict has its message.
    """
    from serq import api

    path = Path(file)
    try:
        program = api.compile(path)
        if not program.ir.expectations:
            return Verdict(path)
        return Verdict(path, api.run(program).answers.expectations)
    except DataError as error:
        return Verdict(path, error=f"error: {error}")
    except CompileError as error:
        return Verdict(path, error=str(error))
    except SerqError as error:
        return Verdict(path, error=f"{path}: error: {error}")


def expects(file: Path) -> bool:
    """Whether the text of a file has an `expect` of its own; where it cannot be read, whether it looks so."""
    from lark import Tree

    from serq.grammar.parser import parse

    try:
        text = read_text(file, "program")
    except DataError:
        return True
    if "expect" not in text:
        return False
    parsed = parse(SourceFile(str(file), text))
    if parsed.tree is None or parsed.diagnostics:
        return True
    items = (item for item in parsed.tree.children if isinstance(item, Tree))
    return any(item.data in ("expectation", "expected_list") for item in items)


def programs_in(paths: Iterable[Path]) -> list[Path]:
    """The files given, and of every folder the `.sq` files in and below it that expect something, by name.

    Folders and files whose names begin with a point are left out.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = (file for file in sorted(path.rglob("*.sq")) if file.is_file())
        visible = (f for f in inside if not any(p.startswith(".") for p in f.relative_to(path).parts))
        found += (file for file in visible if expects(file))
    return list(dict.fromkeys(found))
