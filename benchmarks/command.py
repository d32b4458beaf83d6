"""The command: pick workloads and peers, run each in its own process, compare, print."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.agreement import disagreements
from benchmarks.jobs import Job, Price
from benchmarks.measure import ROOT, Figures, RunFailedError, find_python, measure, summarise
from benchmarks.peers import all_peers
from benchmarks.peers.base import Peer
from benchmarks.table import Row, as_text
from benchmarks.workloads import WORKLOADS, Workload

QUICK = 0.02
"""The part of every workload that a quick run takes."""


def variable(peer: str) -> str:
    """The environment variable that names the Python of a peer."""
    return "SERQ_PEER_" + "".join(letter if letter.isalnum() else "_" for letter in peer.upper())


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with pythons by peer."""
    peers = [peer.name for peer in all_peers()]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, allow_abbrev=False,
        epilog="A peer runs in the Python named by --python, else by an environment variable such as "
        f"{variable(peers[-1])}, else in this one; where it is absent, that is said and it is left out.",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=[w.name for w in WORKLOADS])
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=peers, help="serq is always run")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each (default 3)")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of every workload, once")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="for one run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON too")
    default = Path(os.environ.get("SERQ_SHARED", ROOT.parent / "shared")) / "data" / "traces"
    parser.add_argument("--traces", type=Path, default=default, metavar="FOLDER", help=f"default {default}")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    options = parser.parse_args(arguments)
    pythons = {peer: os.environ[variable(peer)] for peer in peers if variable(peer) in os.environ}
    for pair in options.python:
        peer, equals, path = pair.partition("=")
        if peer not in peers or not equals:
            parser.error(f"--python {pair}: PEER=PATH, and PEER one of {', '.join(peers)}")
        pythons[peer] = path
    if options.repeat < 1:
        parser.error("--repeat: at least 1")
    options.python = pythons
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit status 1 where a peer that computes the same thing came to something else, or a run failed."""
    options = parse(arguments)
    if options.list:
        for workload in WORKLOADS:
            print(f"{workload.name:16} {workload.what}")
        return
    chosen = [peer for peer in all_peers() if peer.ours or not options.peers or peer.name in options.peers]
    found = {peer.name: find_python(peer, options.python.get(peer.name)) for peer in chosen}
    present = [(peer, python) for peer in chosen if (python := found[peer.name]) is not None]
    absent = [peer.name for peer in chosen if found[peer.name] is None]
    for name in absent:
        print(f"{name} is not here, and left out (--python '{name}=PATH', or {variable(name)})")
    rows: list[Row] = []
    for workload in WORKLOADS:
        if not options.only or workload.name in options.only:
            rows += run_workload(workload, present, options)
    if options.json:
        document: dict[str, Any] = {"absent": absent, "rows": [row.as_dict() for row in rows]}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    bad = [row for row in rows if row.agrees is False or (row.figures is None and row.price)]
    if bad:
        sys.exit(1)


def run_workload(
    workload: Workload, present: Sequence[tuple[Peer, str]], options: argparse.Namespace
) -> list[Row]:
    """All peers on one workload; prints their table."""
    count = workload.scaled(QUICK if options.quick else 1.0)
    title = f"\n{workload.name}: {workload.what}; {count:,} requests"
    if workload.stands_in(options.traces):
        title += f"\n  {workload.trace} is not in {options.traces}: generated requests stand in for it"
    with TemporaryDirectory(prefix="serq-benchmarks-") as folder:
        job = workload.write(Path(folder), options.traces, count)
        runs = 1 if options.quick else options.repeat
        comparison = Comparison(job, present, runs, options.timeout)
        rows = [comparison.row(peer, python) for peer, python in present]
    print(as_text(title, rows), flush=True)
    return rows


class Comparison:
    """Runs of one job. Ratios are to the first of ours, agreement is with the one that models the same."""

    def __init__(self, job: Job, present: Sequence[tuple[Peer, str]], runs: int, timeout: float) -> None:
        self._job = job
        self._ours = {peer.name: (peer, python) for peer, python in present if peer.ours}
        self._first = next(iter(self._ours))
        self._runs = runs
        self._timeout = timeout
        self._done: dict[tuple[str, str], Figures] = {}

    def row(self, peer: Peer, python: str) -> Row:
        """``peer`` on the job."""
        job, kind = self._job, peer.price.kind
        refusal = peer.refuses(job)
        if refusal is not None:
            return Row(job.workload, peer.name, note=f"left out: {refusal}")
        try:
            figures = self._figures(peer, python)
            baseline = self._of_ours(self._first, peer.price)
            alike = self._of_ours(peer.like, peer.price)
        except RunFailedError as error:
            return Row(job.workload, peer.name, kind, note=f"failed: {error}")
        differing = disagreements(peer, job, alike.outcome, figures.outcome)
        own = peer.own_rules(job)
        notes = [] if own is None else [f"{own.what}; agrees where within {own.tolerance:g}"]
        notes += map(str, differing)
        return Row(
            job.workload, peer.name, kind, figures,
            ratio_run=figures.run_cpu / baseline.run_cpu,
            ratio_process=figures.process_cpu / baseline.process_cpu,
            agrees=None if figures is alike else not differing,
            note="; ".join(notes),
        )  # fmt: skip

    def _of_ours(self, name: str, price: Price) -> Figures:
        """One of ours under a price; the first of ours where that one does not run the job."""
        peer, python = self._ours[name]
        if peer.refuses(self._job) is not None:
            peer, python = self._ours[self._first]
        return self._figures(replace(peer, price=price), python)

    def _figures(self, peer: Peer, python: str) -> Figures:
        """Repeated runs, each in a fresh process; measured once."""
        key = peer.name, peer.price.kind
        if key not in self._done:
            runs = [measure(python, peer, self._job, self._timeout) for _ in range(self._runs)]
            self._done[key] = summarise(runs)
        return self._done[key]
