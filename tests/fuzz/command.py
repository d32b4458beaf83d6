"""What the commands have in common that run random programs in several ways."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def seeds_asked_for(description: str | None, arguments: list[str] | None) -> range:
    """`--programs N --seed S`: the seeds of N programs, from S on."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    return range(options.seed, options.seed + options.programs)


def keep(kind: str, seed: int, text: str, differences: Sequence[str]) -> None:
    """Write a program that differs to `build/fuzz`, and say in what."""
    folder = Path("build/fuzz")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{kind}_{seed}.sq").write_text(text)
    print(f"program {seed} differs:\n  " + "\n  ".join(differences[:4]))
