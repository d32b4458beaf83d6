"""Where tasks of a study run when a package is missing."""

from __future__ import annotations

import pytest

from serq.errors import UsageError
from serq.studies import backend
from serq.studies.backend import Backend


@pytest.fixture
def no_joblib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_joblib")
def test_the_default_needs_nothing() -> None:
    assert list(Backend().perform(abs, [-1, 2])) == [1, 2]


@pytest.mark.usefixtures("no_joblib")
@pytest.mark.parametrize(
    ("asked", "message"), [(Backend(jobs=2), "joblib"), (Backend(dask="tcp://x:1"), "distributed")]
)
def test_what_was_asked_for_is_refused_with_what_it_needs(asked: Backend, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(asked.perform(abs, [-1]))


def test_who_watches_is_told_before_the_first_task_and_after_each() -> None:
    told: list[tuple[int, int]] = []
    backend = Backend(1, watch=lambda done, total: told.append((done, total)))
    results = backend.perform(abs, iter([-1, -2, 3]))
    assert next(results) == 1 and told == [(0, 3), (1, 3)]
    assert list(results) == [2, 3] and told[-1] == (3, 3)
