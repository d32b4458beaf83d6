"""Where two recorded structures first differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place, such as ``steps[3].sched[0][1]``, at which the recording and the model differ."""

    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path or 'the whole'}: recorded {self.expected!r}, modelled {self.actual!r}"


def first_difference(expected: Any, actual: Any, path: str = "") -> Difference | None:
    """The first difference in document order, None when the structures are equal.

    Numbers are compared by value, whatever their type; everything else by equality.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            here = f"{path}.{key}" if path else str(key)
            if key not in expected or key not in actual:
                return Difference(here, expected.get(key, ABSENT), actual.get(key, ABSENT))
            found = first_difference(expected[key], actual[key], here)
            if found is not None:
                return found
        return None
    if isinstance(expected, list) and isinstance(actual, list):
        for place, (one, other) in enumerate(zip(expected, actual, strict=False)):
            found = first_difference(one, other, f"{path}[{place}]")
            if found is not None:
                return found
        if len(expected) != len(actual):
            return Difference(f"{path} (length)", len(expected), len(actual))
        return None
    equal = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return None if equal else Difference(path, expected, actual)
