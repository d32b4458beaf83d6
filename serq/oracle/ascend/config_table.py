"""Replay of the recorded choices of a scheduler class: kind ``config``."""

from __future__ import annotations

from typing import Any

from serq.oracle.ascend.schedulers import UPSTREAM_CLASSES
from serq.runtime.ascend.scheduler_choice import SchedulerOptionError, SchedulerOptions, choose_scheduler

Document = dict[str, Any]
LONGEST_MESSAGE = 200


def replay_config(document: Document) -> list[Any]:
    """Kind ``config``: the upstream class in effect, or the refusal."""
    return [_row(case) for case in document["cases"]]


def _row(case: Document) -> Document:
    additional = case.get("additional_config", {})
    older = {name: value for name, value in additional.items() if name != "scheduler_config"}
    options = SchedulerOptions(
        kv_role=case.get("kv_role"),
        data_parallel_size=case.get("dp", 1),
        pipeline_parallel_size=case.get("pp", 1),
        scheduler_config=older | additional.get("scheduler_config", {}),
    )
    try:
        kind = choose_scheduler(options)
    except SchedulerOptionError as refusal:
        return {"error": "ValidationError", "message": _validation_message(str(refusal), additional)}
    return {"scheduler": UPSTREAM_CLASSES[kind.value][bool(case.get("async", False))]}


def _validation_message(refusal: str, additional_config: Document) -> str:
    """The refusal in the frame that upstream's validation puts around it, cut as the recordings are.

    The frame shows the first 25 and the last 24 characters of the arguments of the configuration.
    """
    arguments = f"ArgsKwargs((), {{'model_config': ..., 'additional_config': {additional_config!r}}})"
    shown = f"{arguments[:25]}...{arguments[-24:]}"
    message = (
        f"1 validation error for VllmConfig   Value error, {refusal} "
        f"[type=value_error, input_value={shown}, input_type=ArgsKwargs]"
    )
    return f"{message:<{LONGEST_MESSAGE}}"[:LONGEST_MESSAGE]
