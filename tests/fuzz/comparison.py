"""One program on both sides."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.ours import outcome_here
from tests.conformance.outcome import Outcome, differences
from tests.fuzz.quirks import as_the_reference_counts, quirks
from tests.fuzz.reference import Reference, Unusable
from tests.fuzz.tree import FuzzProgram

COUNTERS = ("preemptions", "stuck", "evicted_units", "evicted_entries", "spills", "rejected")


@dataclass(frozen=True)
class Comparison:
    """The two outcomes of a program, and how they differ."""

    expected: Outcome | Unusable
    actual: Outcome
    differences: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """What kind of comparison it was, for the tally."""
        if isinstance(self.expected, Unusable):
            return f"not comparable: the reference {self.expected.reason[:40]}"
        if self.differences:
            return "differs"
        return f"both refuse at {self.expected.refused}" if self.expected.refused else "agrees"


def compare(program: FuzzProgram, reference: Reference) -> Comparison:
    """Run ``program`` on both sides."""
    expected = reference.outcome(program)
    actual = our_outcome(program)
    found = () if isinstance(expected, Unusable) else tuple(differences(expected, actual))
    return Comparison(expected, actual, found)


def our_outcome(program: FuzzProgram) -> Outcome:
    """Our side of it, but for what the reference is known to miscount."""
    with trace_file(program) as trace, as_the_reference_counts():
        return outcome_here(source=program.text, trace=trace)


@contextmanager
def trace_file(program: FuzzProgram) -> Iterator[Path | None]:
    """The program's trace as a file, for as long as it is needed."""
    if program.trace is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="serq-fuzz-") as folder:
        path = Path(folder) / "trace.csv"
        path.write_text(program.trace, "utf-8")
        yield path


def still_shows(program: FuzzProgram, reference: Reference, original: Comparison) -> bool:
    """Whether a smaller program still shows the original difference, and not another one."""
    if quirks(program) or isinstance(original.expected, Unusable):
        return False
    comparison = compare(program, reference)
    if isinstance(comparison.expected, Unusable):
        return False
    refusals = (comparison.expected.refused, comparison.actual.refused)
    return bool(comparison.differences) and refusals == (original.expected.refused, original.actual.refused)


def happenings(outcome: Outcome) -> Counter[str]:
    """What happened in a run, for the coverage of a batch of programs."""
    seen: Counter[str] = Counter()
    for pool in outcome.report.get("pools", ()):
        seen.update(name for name in COUNTERS if pool[name])
    for stage in outcome.report.get("stages", ()):
        seen.update(["iterations"] if stage["iterations"] else [])
    return Counter(dict.fromkeys(seen, 1))
