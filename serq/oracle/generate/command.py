"""The command line: scenario files for a range of seeds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from serq.errors import DataError, SerqError, UsageError
from serq.oracle.generate import generate
from serq.oracle.generate.themes import THEMES


def main(arguments: Sequence[str] | None = None) -> int:
    """Write scenarios; 0, or the exit code of the error that was printed."""
    options = _parser().parse_args(arguments)
    try:
        write_scenarios(seed_range(options.seeds), options.out, options.theme, options.requests)
    except SerqError as error:
        print(f"serq oracle generate: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def write_scenarios(
    seeds: range, folder: Path, theme: str | None = None, num_requests: int | None = None
) -> None:
    """One file per seed, named like the scenario. Raises DataError if ``folder`` is none."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    for seed in seeds:
        scenario = generate(seed, theme, num_requests)
        path = folder / f"{scenario['name']}.json"
        path.write_text(json.dumps(scenario, separators=(",", ":")) + "\n", encoding="utf-8")


def seed_range(text: str) -> range:
    """``FIRST:END`` without END itself, or a single seed. Raises UsageError."""
    first, colon, end = text.partition(":")
    try:
        return range(int(first), int(end) if colon else int(first) + 1)
    except ValueError:
        raise UsageError(f"--seeds: FIRST:END or one number is expected, not {text!r}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="serq oracle generate", description="Write random scenarios that a real scheduler accepts."
    )
    seeds_help = "the seeds from FIRST up to, not including, END"
    parser.add_argument("--seeds", required=True, metavar="FIRST:END", help=seeds_help)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER", help="an existing folder")
    names = list(dict.fromkeys(theme.name for theme in THEMES))
    parser.add_argument("--theme", choices=names, help="draw only scenarios of this theme")
    requests_help = "requests of each scenario (else few; more than 200 are recorded as a digest)"
    parser.add_argument("--requests", type=int, metavar="N", help=requests_help)
    return parser
