"""A measured run against the model, from files to a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.tokens import OutputScript
from serq.validation.compare import compare
from serq.validation.measured_run import MeasuredRun
from serq.validation.prefixes import prompts
from serq.validation.reading import read_run
from serq.validation.replay import Prediction, create_hasher, replay
from serq.validation.report import ValidationReport
from serq.validation.setup import Setup, set_up


def validate(run: Path, tables: Path, given: Mapping[str, Any] | None = None) -> ValidationReport:
    """Replay the measured run at ``run``, steps priced from ``tables``, and compare.

    ``given`` are settings that replace those of the run (see :func:`serq.validation.setup.set_up`). Raises
    DataError for files that cannot be used, UsageError for settings that mean nothing here, RunError where
    the engine could never serve a request.
    """
    measured = read_run(run)
    setup = set_up(measured, tables, given or {})
    prediction = predict(measured, setup)
    return ValidationReport(measured, setup, prediction, compare(measured, prediction))


def predict(run: MeasuredRun, setup: Setup) -> Prediction:
    """The replay of a run: output lengths are those that came, and nothing stops earlier."""
    config = setup.config
    hasher = create_hasher(config)
    texts = prompts([request.prompt_tokens for request in run.requests], setup.prefixes)
    requests = [
        Request(
            str(index),
            text.runs,
            StopRule(request.output_tokens),
            OutputScript(f"output {index}"),
            arrival_time=request.arrival,
            hasher=hasher,
        )
        for index, (request, text) in enumerate(zip(run.requests, texts, strict=True))
    ]
    return replay(requests, config, setup.executor, setup.executor.parallelism.data)
