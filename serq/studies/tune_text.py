"""What `serq tune` answers, in words."""

from __future__ import annotations

from collections.abc import Iterator

from serq.ir.vllm_serve import serve_command
from serq.results.tables import Table, figure
from serq.results.text import aligned
from serq.studies.exactness import EXACT
from serq.studies.tune import Trial, Tuned

SHOWN = 10


def tune_text(result: Tuned) -> str:
    """The answer, the command line, and the configurations by goodput."""
    exact = ["", EXACT] if result.exact else []
    return "\n".join([*_answer(result), "", *_trials(result), *exact, *_failures(result)])


def _answer(result: Tuned) -> Iterator[str]:
    chosen, best = result.chosen, result.best
    if chosen is None:
        yield f"no configuration of {len(result.trials)} meets every objective"
        yield f"nearest: {best.configuration}, goodput {figure(best.mean)} a second; {best.worst}"
        return
    changes = chosen.configuration.changes
    counted = (
        "vLLM's defaults" if not changes else f"{changes} change{'s' if changes > 1 else ''} from defaults"
    )
    yield f"{chosen.configuration} ({counted}): goodput {figure(chosen.mean)} a second"
    if chosen is not best:
        loss, half_width = result.loss(chosen)
        assert loss is not None
        width = "" if half_width is None else f" ± {100 * half_width:.2g}"
        yield f"the best, {best.configuration}, is {100 * loss:.2g}{width} % above it"
    command = serve_command(result.engine)
    yield ""
    yield command.command
    if command.unsaid:
        yield f"not said by this line: {', '.join(command.unsaid)}"


def _trials(result: Tuned) -> Iterator[str]:
    able = [trial for trial in result.trials if trial.failure is None]
    ranked = sorted(able, key=lambda trial: (not trial.met, -trial.mean))
    names = tuple(result.plan.candidates)
    rows = tuple(_row(result, trial) for trial in ranked[:SHOWN])
    headings = ("", *names, "changes", "goodput", "loss %", "objectives")
    yield from aligned(Table(headings, rows))
    if len(ranked) > SHOWN:
        yield f"and {len(ranked) - SHOWN} more"


def _row(result: Tuned, trial: Trial) -> tuple[str, ...]:
    loss, half_width = result.loss(trial)
    shown = "-" if loss is None else f"{100 * loss:.3g}"
    if half_width:
        shown += f" ± {100 * half_width:.2g}"
    return (
        "*" if trial is result.chosen else "",
        *(str(value).lower() for value in trial.configuration.options.values()),
        str(trial.configuration.changes),
        figure(trial.mean),
        shown,
        "met" if trial.met else "missed",
    )


def _failures(result: Tuned) -> Iterator[str]:
    failures = [trial for trial in result.trials if trial.failure is not None]
    if failures:
        yield ""
        first = failures[0]
        yield f"{len(failures)} configurations cannot be run; {first.configuration}: {first.failure}"
