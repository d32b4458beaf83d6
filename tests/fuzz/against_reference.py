"""``python -m tests.fuzz.against_reference --programs 2000 --seed 1``: random programs on both sides.

Prints a tally, and writes every differing program, made small, into a folder. Ends with 1 if any differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.comparison import Comparison, compare, happenings, still_shows
from tests.fuzz.generator import random_program
from tests.fuzz.minimise import minimised
from tests.fuzz.reference import Reference, Unusable, reference_python
from tests.fuzz.tree import FuzzProgram


def main() -> int:
    """Run the command."""
    options = _options()
    python = reference_python()
    if python is None:
        print("the reference is not here: set SERQ_REFERENCE_PYTHON to a Python that has pyserq 0.1.0")
        return 2
    verdicts: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    with Reference(python, options.seconds) as reference:
        for seed in range(options.seed, options.seed + options.programs):
            program = random_program(seed)
            comparison = compare(program, reference)
            verdicts[comparison.verdict] += 1
            if not isinstance(comparison.expected, Unusable):
                happened += happenings(comparison.expected)
            if comparison.differences:
                _report(seed, program, comparison, reference, options.into, options.attempts)
    for verdict, count in verdicts.most_common():
        print(f"{count:7d}  {verdict}")
    print("programs in which there were:", ", ".join(f"{what} {n}" for what, n in happened.most_common()))
    return 1 if verdicts["differs"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.against_reference", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the first program's seed")
    parser.add_argument("--into", type=Path, default=Path("build/fuzz"), metavar="DIR")
    parser.add_argument("--seconds", type=float, default=2.0, help="the reference may take this long")
    parser.add_argument("--attempts", type=int, default=600, help="programs tried to make one small")
    return parser.parse_args()


def _report(
    seed: int, program: FuzzProgram, found: Comparison, reference: Reference, folder: Path, attempts: int
) -> None:
    """Write the program, made small, and what differs in it."""
    small = minimised(program, lambda smaller: still_shows(smaller, reference, found), attempts)
    differing = compare(small, reference)
    folder.mkdir(parents=True, exist_ok=True)
    notes = "".join(f"// {line}\n" for text in differing.differences[:8] for line in text.splitlines()[:4])
    (folder / f"seed_{seed}.sq").write_text(f"// seed {seed}\n{notes}{small.text}", "utf-8")
    if small.trace is not None:
        (folder / f"seed_{seed}.csv").write_text(small.trace, "utf-8")
    print(
        f"seed {seed}: {differing.differences[0].splitlines()[0] if differing.differences else '?'}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
