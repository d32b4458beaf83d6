"""One run in a fresh process: ``python -m benchmarks.worker MODULE < job.json`` answers a line of JSON."""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks.jobs import Job


def peak_memory() -> int:
    """The largest resident set of this process so far, in bytes.

    Linux tells it for this program alone; what `getrusage` says includes the process that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    """Run the job on standard input with the adapter that the command line names."""
    job = Job.from_json(sys.stdin.read())
    outcome = import_module(sys.argv[1]).run(job)
    print(json.dumps({**asdict(outcome), "peak_memory": peak_memory()}))


if __name__ == "__main__":
    main()
