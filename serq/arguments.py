"""Arguments of Python calls: each is what it is meant to be, or an error says which one is not.

Every function takes the name of an argument and what was given for it, and gives back what was meant: a
`Path` for a text, an `int` for the whole number of another library. All raise WrongTypeError for what
cannot be meant; whether a number makes sense is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from serq.errors import UsageError, WrongTypeError
from serq.ir.nearest import closest

SHOWN_LENGTH = 60
"""Characters of a value that a message shows."""


def path(name: str, given: Any) -> Path:
    """The path of a file or a folder: a text or a `Path`."""
    if isinstance(given, PathLike):
        given = fspath(given)
    if not isinstance(given, str):
        raise wrong(name, given, "a path, as a text or a `Path`")
    return Path(given)


def refuse_program(file: Path) -> Path:
    """The path of a trace. Raises UsageError where a program stands in its place."""
    if file.suffix == ".sq":
        raise UsageError(f"{file}: a trace is wanted here, and .sq is the ending of a program")
    return file


def refuse_trace(file: Path) -> None:
    """Raise UsageError for a trace that stands in the place of a program."""
    if file.suffix in (".csv", ".jsonl"):
        raise UsageError(
            f"{file}: a program is wanted here, and {file.suffix} is the ending of a trace: a program names "
            'its trace (`arrive trace; trace "file.csv";`), and `--trace FILE` replays another'
        )


def text(name: str, given: Any, example: str) -> str:
    """A text; ``example`` is one that would be right."""
    if not isinstance(given, str):
        raise wrong(name, given, f'a text, such as "{example}"')
    return given


def texts(name: str, given: Any, example: str) -> tuple[str, ...]:
    """Several texts, or one that stands for itself; ``example`` is one that would be right."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise wrong(name, given, f'texts, such as ["{example}"]')
    return tuple(text(f"{name}[{place}]", item, example) for place, item in enumerate(given))


def number(name: str, given: Any) -> float:
    """A number."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(name, given, "a number")
    return int(given) if isinstance(given, Integral) else float(given)


def whole(name: str, given: Any) -> int:
    """A whole number; 3.0 is one. Raises UsageError for any other number."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(name, given, "a whole number")
    if not float(given).is_integer():
        raise UsageError(f"{name}={given}: it must be a whole number")
    return int(float(given)) if not isinstance(given, Integral) else int(given)


def flag(name: str, given: Any) -> bool:
    """True or False, and nothing that Python would take for one of them."""
    if not isinstance(given, bool):
        raise wrong(name, given, "True or False")
    return given


def lets(name: str, given: Any) -> dict[str, str | float]:
    """New values for `let`s by their names."""
    values = named(name, given, '{"rate": 3}')
    return {key: let(f"{name}[{key!r}]", value) for key, value in values.items()}


def let(name: str, given: Any) -> str | float:
    """The value of one `let`: a number, or the text of a constant expression."""
    if isinstance(given, str):
        return given
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(name, given, "a number, or the text of an expression")
    return number(name, given)


def named(name: str, given: Any, example: str) -> dict[str, Any]:
    """Values by names that are texts; ``example`` is how one writes them."""
    if not isinstance(given, Mapping):
        raise wrong(name, given, f"values by name, such as {example}")
    for key in given:
        if not isinstance(key, str):
            raise wrong(f"a name in {name}", key, f"a text, as in {example}")
    return dict(given)


def only_known(call: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise WrongTypeError, as Python does, for a keyword that ``call`` does not take."""
    for name in given:
        if name not in known:
            near = closest(name, known)
            hint = f"it takes {', '.join(known)}" if near is None else f"did you mean `{near}`?"
            raise WrongTypeError(f"{call}() has no argument `{name}`; {hint}")


def wrong(name: str, given: Any, meant: str) -> WrongTypeError:
    """What to say of an argument of a type that it cannot have."""
    shown = repr(given)
    if len(shown) > SHOWN_LENGTH:
        shown = f"{shown[:SHOWN_LENGTH]}…"
    return WrongTypeError(f"{name}={shown}: it must be {meant}, not {_kind(given)}")


def _kind(given: Any) -> str:
    return "None" if given is None else f"of type {type(given).__name__}"
