"""The seal on recorded expectations: what a test compares with must not change by accident.

Every file below the sealed folders that is not Python is listed with its SHA-256 in ``seals/FOLDER.sha256``
(the format of ``sha256sum``). ``python -m tests.house.recorded --renew FOLDER`` writes a list anew, after a
change made on purpose; the commit that does so says why.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from tests.shared import ROOT

SEALS = Path(__file__).parent / "seals"
SEALED = {"conformance": "tests/conformance", "oracle": "tests/oracle", "golden": "tests/golden"}


def recorded_files(folder: str) -> list[Path]:
    """The data files of a sealed folder, in a stable order."""
    return sorted(
        path
        for path in (ROOT / SEALED[folder]).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"} and "__pycache__" not in path.parts
    )


def digests(folder: str) -> dict[str, str]:
    """Relative path -> SHA-256 of every data file as it is now."""
    return {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in recorded_files(folder)
    }


def sealed(folder: str) -> dict[str, str]:
    """Relative path -> SHA-256 as the committed list has it."""
    seal = SEALS / f"{folder}.sha256"
    lines = seal.read_text("utf-8").splitlines() if seal.exists() else []
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def renew(folder: str) -> None:
    """Write the list of ``folder`` from the files as they are."""
    SEALS.mkdir(exist_ok=True)
    lines = [f"{digest}  {path}\n" for path, digest in digests(folder).items()]
    (SEALS / f"{folder}.sha256").write_text("".join(lines), "utf-8")


def main() -> None:
    """Renew the lists named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.recorded", description=__doc__)
    parser.add_argument("--renew", nargs="+", choices=sorted(SEALED), required=True)
    for folder in parser.parse_args().renew:
        renew(folder)


if __name__ == "__main__":
    main()
