"""``python -m tests.fuzz.attack --inputs 10000``: broken programs, IR files and traces.

Whatever is put in, what comes out is a report or an error of ours: never another exception, never a hang.
Writes every input that breaks this into a folder. Ends with 1 if any does.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Literal

from click.testing import CliRunner

import serq
from serq import cli
from serq.errors import SerqError
from tests.conformance.recordings import recordings
from tests.fuzz.generator import random_program
from tests.fuzz.mutations import mutated_ir, mutated_program, mutated_trace
from tests.shared import ROOT

Kind = Literal["program", "ir", "trace", "scenario"]
SUFFIXES: dict[Kind, str] = {"program": ".sq", "ir": ".json", "trace": ".csv", "scenario": ".json"}
COMMANDS: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "program": (("check",), ("check", "--json"), ("fmt",), ("ir",)),
    "ir": (("check",), ("ir",)),
    "trace": (
        ("trace", "info"),
        ("trace", "convert", "--to", "mooncake"),
        ("trace", "convert", "--to", "session"),
        ("trace", "cut", "--rows", "1:3"),
        ("trace", "resample", "--sessions", "3"),
    ),
    "scenario": (("oracle", "check"), ("oracle", "replay"), ("oracle", "show")),
}
"""What is also done with a file of each kind, through the command line."""
SECONDS = 10.0
EVENTS = 20_000
"""A run that has come so far and still moves is no hang."""
HORIZON = 50.0

REPLAY = """
stage think : delay;
workload { arrive batch(5); trace "input.csv" ordered; }
session { loop { turn; run think (max(0, min(9, new))); observe n = out; branch (more != 1) { end; } } }
run { horizon 50; }
"""
TRACES = (
    "session,turn,new,out,think,forced\n0,0,10,5,1.5,0\n0,1,4,2,0,1\n1,0,7,3,2,0\n",
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,374,44\n"
    "2023-11-16 18:17:04.0319600,396,109\n2023-11-16 18:17:04.0781290,879,55\n",
    '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 3]}\n'
    '{"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14, 15]}\n',
)


class LongEnough(Exception):
    """The run is long, and time moves in it."""


class Hang(BaseException):
    """Nothing came out in time."""


@dataclass(frozen=True)
class Attack:
    """One broken input."""

    kind: Kind
    data: bytes
    command: tuple[str, ...]

    def verdict(self) -> str:
        """``error``, ``report`` or ``long``: all good. Anything else is raised."""
        with TemporaryDirectory(prefix="serq-attack-") as folder, limited(SECONDS):
            path = Path(folder) / f"input{SUFFIXES[self.kind]}"
            path.write_bytes(self.data)
            self._through_the_command_line(path)
            if self.kind == "scenario":
                return "replayed"
            try:
                report = serq.run(self._compiled(path), progress=_watch())
            except SerqError as error:
                assert str(error).strip(), "an error must say something"
                return "error"
            except LongEnough:
                return "long"
            assert repr(report) and report.to_json()
            return "report"

    def _through_the_command_line(self, path: Path) -> None:
        done = CliRunner().invoke(cli.main, [*self.command, str(path)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code in {0, 1, 2}
        assert done.exit_code == 0 or done.output.strip(), "an error must say something"

    def _compiled(self, path: Path) -> serq.Program:
        if self.kind == "trace":
            return serq.compile(source=REPLAY, trace=path)
        program = serq.compile(path)
        assert program.ir.run.horizon is not None
        return serq.compile(path, horizon=min(HORIZON, program.ir.run.horizon), warmup=0)


def _watch() -> Callable[[float, int], None]:
    """Ends a run after many events, if its time has moved since the last look."""
    last = -1.0

    def progress(time: float, events: int) -> None:
        nonlocal last
        if events > EVENTS and time > last >= 0:
            raise LongEnough
        last = time

    return progress


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises :class:`Hang` inside the block when it takes longer."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@cache
def _texts() -> tuple[str, ...]:
    examples = sorted((ROOT / "examples").rglob("*.sq"))
    paths = [*(recording.path for recording in recordings().values()), *examples * 8]
    return tuple(path.read_text("utf-8") for path in paths)


@cache
def _ir_files() -> tuple[str, ...]:
    files = []
    for text in _texts():
        with suppress(SerqError):
            files.append(serq.compile(source=text).to_json())
    return tuple(files)


@cache
def _scenarios() -> tuple[str, ...]:
    files = sorted((ROOT / "tests" / "oracle").rglob("*.json"))
    return tuple(path.read_text("utf-8") for path in files if path.stat().st_size < 20_000)


def attack(seed: int) -> Attack:
    """The broken input of ``seed``."""
    rng = Random(seed)
    kinds: tuple[Kind, ...] = ("program", "ir", "trace", "scenario")
    kind = rng.choices(kinds, (10, 6, 3, 3))[0]
    return Attack(kind, _broken(rng, kind), rng.choice(COMMANDS[kind]))


def _broken(rng: Random, kind: Kind) -> bytes:
    if kind == "trace":
        return mutated_trace(rng, rng.choice(TRACES))
    if kind == "program":
        text = rng.choice(_texts()) if rng.random() < 0.6 else random_program(rng.randrange(10**6)).text
        return mutated_program(rng, text).encode("utf-8", "surrogatepass")
    return mutated_ir(rng, rng.choice(_ir_files() if kind == "ir" else _scenarios())).encode(
        "utf-8", "surrogatepass"
    )


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.attack", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--into", type=Path, default=Path("build/attack"), metavar="DIR")
    options = parser.parse_args()
    verdicts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.inputs):
        tried = attack(seed)
        try:
            verdicts[f"{tried.kind}: {tried.verdict()}"] += 1
        except KeyboardInterrupt:
            raise
        except BaseException as failure:
            verdicts[f"{tried.kind}: BROKEN"] += 1
            options.into.mkdir(parents=True, exist_ok=True)
            (options.into / f"seed_{seed}{SUFFIXES[tried.kind]}").write_bytes(tried.data)
            where = traceback.extract_tb(failure.__traceback__)[-1]
            print(
                f"seed {seed}: {type(failure).__name__}: {failure} ({where.filename}:{where.lineno})",
                flush=True,
            )
    for verdict, count in sorted(verdicts.items()):
        print(f"{count:7d}  {verdict}")
    return 1 if any("BROKEN" in verdict for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
