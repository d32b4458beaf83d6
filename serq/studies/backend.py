"""Where tasks run: in this process, on all cores of this machine, or on an existing Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

from serq.errors import UsageError

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Backend:
    """How many processes of this machine (``jobs``; -1: one a core), or the address of a Dask scheduler.

    One job runs in this process and needs nothing; more need joblib, a cluster needs Dask's `distributed`.
    Without joblib -1 is one job: a number that was asked for is refused, the default is not.
    """

    jobs: int = -1
    dask: str | None = None
    watch: Callable[[int, int], None] | None = None
    """Told how many tasks are done, of how many: before the first, and after each."""

    def check(self) -> None:
        """Raise UsageError where the backend cannot be had."""
        if self.jobs == 0 or self.jobs < -1:
            raise UsageError(f"{self.jobs} jobs: give a positive number, or -1 for one a core")
        if self.dask is not None and find_spec("distributed") is None:
            raise UsageError("a Dask cluster needs `distributed`: pip install 'serq[dask]'")
        if (self.dask is not None or self.jobs > 1) and find_spec("joblib") is None:
            raise UsageError(
                "several processes need joblib: pip install 'serq[sweep]'; `--jobs 1` needs nothing"
            )

    def perform(self, function: Callable[[Given], Result], tasks: Iterable[Given]) -> Iterator[Result]:
        """The result of every task, as soon as it is there, in any order. Tasks are made as they are needed.

        Raises UsageError for a cluster that does not answer.
        """
        self.check()
        watch = self.watch
        if watch is None:
            yield from self._results(function, tasks)
            return
        listed = list(tasks)
        watch(0, len(listed))
        for done, result in enumerate(self._results(function, listed), 1):
            watch(done, len(listed))
            yield result

    def _results(self, function: Callable[[Given], Result], tasks: Iterable[Given]) -> Iterator[Result]:
        if self._alone():
            yield from map(function, tasks)
            return
        import joblib

        with self._place():
            parallel = joblib.Parallel(n_jobs=self.jobs, return_as="generator_unordered")
            yield from parallel(joblib.delayed(function)(task) for task in tasks)

    def _alone(self) -> bool:
        """Whether tasks run in this process."""
        one = self.jobs == 1 or (self.jobs == -1 and find_spec("joblib") is None)
        return one and self.dask is None

    def _place(self) -> AbstractContextManager[Any]:
        if self.dask is None:
            return nullcontext()
        import joblib
        from distributed import Client

        try:
            client = Client(self.dask, timeout=5, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise UsageError(f"no Dask scheduler answers at {self.dask} ({error})") from None
        return joblib.parallel_config("dask", client=client)  # type: ignore[no-any-return]
