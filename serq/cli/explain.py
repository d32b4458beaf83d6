"""`serq explain`: what a metric means, why a request was slow, what the slowest have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from serq.cli import completion
from serq.cli.options import running
from serq.errors import UsageError

_METRICS: Final = ("ttft", "tpot", "itl", "e2e", "queue_time")
_TAILS: Final = ("ttft", "tpot", "e2e")
_FINDINGS: Final = ("starvation", "engine-stalled")
"""Warnings of a run that explain its requests."""


@click.command()
@click.argument(
    "about", metavar="[METRIC | SOURCE]", required=False, shell_complete=completion.metrics_and_files
)
@click.option("--request", "request_name", metavar="R", help="A number, SESSION:HANDLE, worst, or p99.")
@click.option("--by", type=click.Choice(_METRICS), help="What worst and p99 are about (default: e2e).")
@click.option("--tail", type=click.Choice(_TAILS), help="What the slowest by this metric have in common.")
@click.option("--quantile", type=click.FloatRange(0, 1, min_open=True), help="Where a tail begins (0.99).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
@running
def explain(
    about: str | None,
    request_name: str | None,
    by: str | None,
    tail: str | None,
    quantile: float | None,
    as_json: bool,
    sets: Mapping[str, str],
    **settings: Any,
) -> None:
    """Say how METRIC (such as ttft) is computed, or why requests of SOURCE were slow.

    SOURCE is a program, which is run, or the folder of a run (`serq run --out`): give --request or --tail.
    Without any argument all metrics are listed.
    """
    if request_name is not None or tail is not None:
        if about is None or (request_name is not None and tail is not None):
            raise UsageError("give SOURCE and one of --request and --tail")
        if (by is not None and request_name is None) or (quantile is not None and tail is None):
            raise UsageError("--by goes with --request, and --quantile with --tail")
        click.echo(
            _of_run(Path(about), request_name, by or "e2e", tail, quantile or 0.99, as_json, sets, settings)
        )
        return
    given = {"by": by, "quantile": quantile, "json": as_json, "set": sets, **settings}
    wrong = next((name for name, value in given.items() if value), None)
    if about is not None and (wrong or Path(about).exists()):
        raise UsageError(
            f"{about}: give --request R or --tail METRIC, to say what of the run is to be explained"
        )
    if wrong:
        raise UsageError(f"--{wrong} is about a run: give SOURCE")
    click.echo(_of_metric(about))


def _of_metric(metric: str | None) -> str:
    from serq.ir.nearest import closest
    from serq.results.definitions import DEFINITIONS, definition, explained

    if metric is None:
        width = max(len(found.name) for found in DEFINITIONS)
        return "\n".join(f"{found.name.ljust(width)}  {found.formula}" for found in DEFINITIONS)
    wanted = definition(metric.lower())
    if wanted is None:
        names = [found.name for found in DEFINITIONS]
        near = closest(metric.lower(), names)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(f'`{name}`' for name in names)}"
        raise UsageError(f"no metric `{metric}`; {hint}")
    return explained(wanted)


def _of_run(
    source: Path,
    request: str | None,
    by: str,
    tail: str | None,
    quantile: float,
    as_json: bool,
    sets: Mapping[str, str],
    settings: Mapping[str, Any],
) -> str:
    import json

    from serq.cli.source import report_of
    from serq.results.explanation.request import explain_request, place_of
    from serq.results.explanation.tail import explain_tail
    from serq.results.explanation.thrash import thrashing
    from serq.results.explanation.words import plain, request_text, tail_text
    from serq.results.run_folder.unfinished import UNFINISHED

    report = report_of(source, sets, settings)
    records = report.whole_records()
    if records.stopped == UNFINISHED:
        raise UsageError(
            f"{source}: the run was killed, and waits and preemptions of its last requests were not written; "
            "without them an explanation would be wrong (`serq report` shows what there is)"
        )
    if not len(records.requests):
        raise UsageError(f"{source}: the run sent no request to a `vllm` stage, so there is none to explain")
    named = [f"finding: {sentence}" for sentence in thrashing(records)]
    named += [warning.render() for warning in report.warnings if warning.code in _FINDINGS]
    if records.stopped is not None:
        named.append(f"the run was stopped: {records.stopped}")
    if tail is not None:
        found = explain_tail(tail, quantile, records)
        return json.dumps(plain(found)) if as_json else "\n".join((tail_text(found), *named))
    assert request is not None
    one = explain_request(place_of(request, records, by), records)
    if as_json:
        return json.dumps(plain(one))
    return "\n".join((request_text(one), *named))
