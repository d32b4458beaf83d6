"""Operator schemas, and the check of a call against the schema of its operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from serq.errors import SerqError
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument

_LINE = re.compile(r"(?P<package>\w+)\.(?P<name>\w+)\((?P<parameters>.*)\) -> .*")
_PARAMETER = re.compile(
    r"(?P<kind>\w+)(?:\(\w!\))?(?P<list>\[\])?(?P<optional>\?)? (?P<name>\w+)(?P<default>=.*)?"
)


class OperatorCallError(SerqError):
    """A call that its operator would refuse: an unknown argument, a wrong kind, a missing argument."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operator."""

    name: str
    kind: str
    is_list: bool
    optional: bool
    required: bool
    keyword_only: bool

    def accepts(self, value: Argument) -> bool:
        """Whether ``value`` has a kind that the operator takes here."""
        if value is None:
            return self.optional
        if self.is_list:
            # A list of integers; a one-dimensional tensor on the host is converted element by element.
            return isinstance(value, tuple) or (isinstance(value, TensorArgument) and len(value.shape) == 1)
        if self.kind == "Tensor":
            return isinstance(value, TensorArgument)
        if self.kind == "bool":
            return isinstance(value, bool)
        if self.kind == "str":
            return isinstance(value, str)
        if isinstance(value, bool):
            return False
        return isinstance(value, int) or (self.kind == "float" and isinstance(value, float))


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """The parameters of one operator, in order."""

    package: str
    operator: str
    parameters: tuple[Parameter, ...]

    def check(self, call: OperatorCall) -> None:
        """Raises :class:`OperatorCallError` when the operator would refuse ``call``."""
        given = self._bind(call)
        for parameter in self.parameters:
            if parameter.name not in given:
                if parameter.required:
                    raise self._error(f"needs an argument {parameter.name!r}")
            elif not parameter.accepts(given[parameter.name]):
                shown = type(given[parameter.name]).__name__
                raise self._error(f"does not take a {shown} as {parameter.name!r}")

    def _bind(self, call: OperatorCall) -> dict[str, Argument]:
        positions = [parameter.name for parameter in self.parameters if not parameter.keyword_only]
        if len(call.positional) > len(positions):
            raise self._error(f"takes {len(positions)} positional arguments, not {len(call.positional)}")
        given = dict(zip(positions, call.positional, strict=False))
        known = {parameter.name for parameter in self.parameters}
        for name, value in call.keywords.items():
            if name not in known:
                raise self._error(f"has no argument {name!r}")
            if name in given:
                raise self._error(f"got {name!r} twice")
            given[name] = value
        return given

    def _error(self, message: str) -> OperatorCallError:
        return OperatorCallError(f"{self.package}.{self.operator} {message}")


def parse_schemas(lines: Iterable[str]) -> Mapping[tuple[str, str], OperatorSchema]:
    """The schemas of a text of lines ``package.name(parameters) -> returns``; ``#`` begins a comment line."""
    schemas = {}
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"not an operator schema: {line.strip()!r}")
        key = (match["package"], match["name"])
        schemas[key] = OperatorSchema(*key, tuple(_parse_parameters(match["parameters"])))
    return schemas


def _parse_parameters(text: str) -> Iterable[Parameter]:
    keyword_only = False
    for part in text.split(", "):
        if part == "*":
            keyword_only = True
            continue
        match = _PARAMETER.fullmatch(part)
        if match is None:
            raise ValueError(f"not a parameter of an operator schema: {part!r}")
        yield Parameter(
            name=match["name"],
            kind=match["kind"],
            is_list=match["list"] is not None,
            optional=match["optional"] is not None,
            required=match["default"] is None,
            keyword_only=keyword_only,
        )


@lru_cache(maxsize=1)
def known_schemas() -> Mapping[tuple[str, str], OperatorSchema]:
    """The schemas shipped with the package, by package and operator."""
    text = resources.files("serq.kernels.ascend").joinpath("operators.schema").read_text(encoding="utf-8")
    return parse_schemas(text.splitlines())


def check_call(call: OperatorCall) -> None:
    """Raises :class:`OperatorCallError` when no known operator takes ``call``."""
    schema = known_schemas().get((call.package, call.operator))
    if schema is None:
        raise OperatorCallError(f"no schema is known for {call.package}.{call.operator}")
    schema.check(call)
