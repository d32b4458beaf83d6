"""The reference implementation in a process of its own, with a limit on what one program may take."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conformance.outcome import Outcome
from tests.fuzz.tree import FuzzProgram
from tests.shared import ROOT

WORKER = Path(__file__).with_name("reference_worker.py")
VERSION = "0.1.0"


def reference_python() -> str | None:
    """The Python that has pyserq: ``SERQ_REFERENCE_PYTHON``, or the environment that ``.ci/run`` makes."""
    named = os.environ.get("SERQ_REFERENCE_PYTHON")
    candidates = [named] if named else [str(ROOT / ".ci-pyserq" / "bin" / "python")]
    return next((python for python in candidates if Path(python).exists()), None)


@dataclass(frozen=True)
class Unusable:
    """The reference hung or crashed: there is nothing to compare with."""

    reason: str


class Reference:
    """A running worker; it is started again after a program that hung or crashed it."""

    def __init__(self, python: str, seconds: float = 1.0) -> None:
        self._python = python
        self._seconds = seconds
        self._worker: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="serq-fuzz-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        self._stop()
        self._folder.cleanup()

    def outcome(self, program: FuzzProgram) -> Outcome | Unusable:
        """What the reference says to ``program``."""
        request = {"source": program.text, "trace": None}
        if program.trace is not None:
            path = Path(self._folder.name) / "trace.csv"
            path.write_text(program.trace, "utf-8")
            request["trace"] = str(path)
        return self._ask(json.dumps(request))

    def _ask(self, request: str) -> Outcome | Unusable:
        worker = self._started()
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(request + "\n")
        worker.stdin.flush()
        ready, _, _ = select.select([worker.stdout], [], [], self._seconds)
        answer = worker.stdout.readline() if ready else None
        if not answer:
            self._stop()
            return Unusable("hangs" if answer is None else "crashes")
        reply = json.loads(answer)
        if reply.get("refused") == "crash":
            return Unusable(f"panics: {reply['message']}")
        return Outcome(**reply)

    def _started(self) -> subprocess.Popen[str]:
        if self._worker is None:
            self._worker = subprocess.Popen(
                [self._python, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            self._worker = None
