"""Runs in processes of their own, and what they cost."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from time import perf_counter

from benchmarks.jobs import Job, Outcome
from benchmarks.peers.base import Peer

ROOT = Path(__file__).parents[1]


class RunFailedError(Exception):
    """A peer did not come to an end; the message is the end of what it said."""


@dataclass(frozen=True)
class Measurement:
    """One run: its outcome, and wall time, CPU time and peak memory of the whole process."""

    outcome: Outcome
    process_wall: float
    process_cpu: float
    peak_memory: int


def find_python(peer: Peer, named: str | None) -> str | None:
    """The Python ``named``, else this one, if it has ``peer``; None where it has not, or is not there."""
    python = named or sys.executable
    try:
        found = subprocess.run(
            _command(python, peer, peer.probe), env=_environment(peer), cwd=ROOT, capture_output=True,
            check=False,
        )  # fmt: skip
    except OSError:
        return None
    return python if found.returncode == 0 else None


def measure(python: str, peer: Peer, job: Job, timeout: float) -> Measurement:
    """Run ``job`` once. Raises RunFailedError."""
    command = [*_command(python, peer, "from benchmarks.worker import main; main()"), peer.module]
    with TemporaryFile("w+", encoding="utf-8") as output, TemporaryFile("w+", encoding="utf-8") as errors:
        began = perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=errors, env=_environment(peer),
            cwd=ROOT, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(job.priced(peer.price).to_json())
        process.stdin.close()
        status, usage = _wait(process, timeout)
        wall = perf_counter() - began
        output.seek(0)
        errors.seek(0)
        if status != 0:
            said = (output.read() + errors.read()).strip().splitlines()
            raise RunFailedError("; ".join(said[-2:]) or f"exit status {status}")
        lines = output.read().strip().splitlines()
    answer = json.loads(lines[-1])
    memory = answer.pop("peak_memory")
    return Measurement(Outcome(**answer), wall, usage, memory)


def _wait(process: subprocess.Popen[str], timeout: float) -> tuple[int, float]:
    """Exit status and CPU seconds of a process. Raises RunFailedError when the time is up."""
    before = _children_cpu()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RunFailedError(f"no end after {timeout:g} s") from None
    return status, _children_cpu() - before


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _command(python: str, peer: Peer, code: str) -> list[str]:
    """Run ``code``, which finds the benchmarks: before what is installed, or behind it."""
    if peer.installed:
        return [python, "-P", "-c", f"import sys; sys.path.append({str(ROOT)!r}); {code}"]
    return [python, "-c", code]


def _environment(peer: Peer) -> dict[str, str]:
    """That of a run.

    Python may keep the modules of this tree byte-compiled, as those of installed packages are: a source
    that is compiled anew in every process is nothing that a peer pays for.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if peer.installed:
        del environment["PYTHONPATH"]
    return environment


@dataclass(frozen=True)
class Figures:
    """Several runs of one job: the smallest times, which disturb least, and the median of memory."""

    outcome: Outcome
    runs: int
    run_cpu: float
    run_wall: float
    process_cpu: float
    process_wall: float
    peak_memory: float


def summarise(measurements: list[Measurement]) -> Figures:
    """The figures of runs that came to the same. Raises RunFailedError where they did not."""
    first = measurements[0].outcome
    results = {
        (m.outcome.requests, m.outcome.steps, m.outcome.mean_ttft, m.outcome.mean_e2e) for m in measurements
    }
    if len(results) > 1:
        raise RunFailedError(f"repeated runs differ: {sorted(results)}")
    return Figures(
        outcome=first,
        runs=len(measurements),
        run_cpu=min(m.outcome.run_cpu for m in measurements),
        run_wall=min(m.outcome.run_wall for m in measurements),
        process_cpu=min(m.process_cpu for m in measurements),
        process_wall=min(m.process_wall for m in measurements),
        peak_memory=median(m.peak_memory for m in measurements),
    )
