"""Which job a request belongs to, and how long the job's answers are expected to be (V-019 to V-023)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from serq.runtime.upstream_defects import UpstreamCrashError

DEFAULT_JOB = "__default__"
COLD_DECODE_TOKENS = 128
EWMA_ALPHA = 0.1
MOST_SAMPLES = 10

_JOB_NAME = re.compile(r"#job_name\[([^\[\]]+)\]#")


def job_name(request_id: str) -> str:
    """The first ``#job_name[NAME]#`` in a request id; NAME is not empty and has no brackets (V-019)."""
    match = _JOB_NAME.search(request_id)
    return DEFAULT_JOB if match is None else match[1]


class TooManyJobsError(UpstreamCrashError):
    """More jobs than the scheduler was configured for: upstream raises, and its engine dies (V-035)."""

    def __init__(self, message: str) -> None:
        why = "More jobs than `max_jobs` end it (V-020, V-035); `fixed true` models an engine that goes on."
        super().__init__("RuntimeError", message, why)


@dataclass(slots=True)
class JobDecodeSamples:
    """What was seen of one job: how many answers, and their moving average in tokens."""

    count: int = 0
    average: float = 0.0


class JobDecodeEstimator:
    """Predicts a job's decode length from its first answers (V-021, V-022).

    Only answers that ended by a stop token are observed (V-023), so a job that is always cut by its length
    limit keeps the cold prediction. Samples after the tenth are ignored for ever.
    """

    def __init__(self, max_jobs: int, *, refuses: bool = True) -> None:
        """``refuses``: as upstream; False leaves jobs beyond the limit unlearnt, and 0 is no limit."""
        self._max_jobs = max_jobs
        self._refuses = refuses
        self.jobs: dict[str, JobDecodeSamples] = {}

    def observe(self, job: str, num_output_tokens: int) -> None:
        """Take in a finished answer. Raises :class:`TooManyJobsError`; a limit of 0 admits no job (V-020)."""
        samples = self.jobs.get(job)
        if samples is None:
            if not self._refuses and len(self.jobs) >= self._max_jobs > 0:
                return
            if self._refuses and len(self.jobs) >= self._max_jobs:
                raise TooManyJobsError(f"job {job!r} would be one more than max_jobs = {self._max_jobs}")
            samples = self.jobs[job] = JobDecodeSamples()
        if samples.count >= MOST_SAMPLES:
            return
        if samples.count:
            samples.average = EWMA_ALPHA * num_output_tokens + (1 - EWMA_ALPHA) * samples.average
        else:
            samples.average = float(num_output_tokens)
        samples.count += 1

    def predict(self, job: str) -> int:
        """The expected answer of ``job`` in tokens, truncated."""
        samples = self.jobs.get(job)
        return COLD_DECODE_TOKENS if samples is None else int(samples.average)
