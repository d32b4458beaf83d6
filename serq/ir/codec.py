"""IR files: a program as JSON, without loss, and back with every check."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import msgspec

from serq.errors import CompileError
from serq.ir.flat_chains import fields, flat_chain, link_chains, tall_nodes
from serq.ir.nodes import IR_VERSION, Node, Program, with_settings
from serq.ir.validate import validate
from serq.source import Diagnostic

_WORDS: Final = {math.inf: "inf", -math.inf: "-inf"}
_NUMBERS: Final = {word: value for value, word in _WORDS.items()}
"""Infinities are written ``{"float": "inf"}``, as JSON has no word for them; NaN is part of no program."""


def encode(program: Program) -> bytes:
    """The program as a JSON file: UTF-8, one fixed form, so that equal programs give equal bytes."""
    tall = tall_nodes(program)
    plain = _replaced(program, lambda value: _written(value, tall))
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def decode(data: bytes, settings: Mapping[str, float] | None = None) -> Program:
    """The program of a JSON file, with parts of its run block replaced by ``settings``.

    Raises:
        CompileError: for anything that is not a legal program of this IR version.
    """
    plain = _parsed(data)
    if not isinstance(plain, dict) or plain.get("node") != "serq":
        raise _refused("E501", 'this is not an IR file: it is no JSON object with `"node": "serq"`')
    version = plain.get("version")
    if version != IR_VERSION or isinstance(version, bool):
        message = f"this IR file has version {version!r}, and this serq reads version {IR_VERSION}"
        raise _refused("E502", message, "compile its program text again")
    try:
        plain = _replaced(plain, _read)
        link_chains(plain)
        program = with_settings(msgspec.convert(plain, Program), settings or {})
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise _refused("E503", f"this IR file does not hold a program: {_reason(error)}") from None
    errors = [problem.diagnostic for problem in validate(program) if problem.severity == "error"]
    if errors:
        raise CompileError(errors)
    return program


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _refused("E501", f"this is not an IR file: {_reason(error)}") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field `{next(n for n in names if names.count(n) > 1)}` is given twice")
    return found


def _no_constant(word: str) -> None:
    raise ValueError(f"`{word}` is not JSON")


def _refused(code: str, message: str, help_: str | None = None) -> CompileError:
    return CompileError([Diagnostic(code, message, help=help_)])


def _reason(error: Exception) -> str:
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)


def _replaced(plain: Any, replace: Callable[[Any], Any]) -> Any:
    """Plain data with every value put through ``replace``, however deep it is."""
    root = [plain]
    stack: list[Any] = [root]
    while stack:
        container = stack.pop()
        keys = range(len(container)) if isinstance(container, list) else list(container)
        for key in keys:
            value = container[key] = replace(container[key])
            if isinstance(value, dict | list):
                stack.append(value)
    return root[0]


def _written(value: Any, tall: Set[int]) -> Any:
    if isinstance(value, Node):
        return flat_chain(value) if id(value) in tall else fields(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and value in _WORDS:
        return {"float": _WORDS[value]}
    return value


def _read(value: Any) -> Any:
    if isinstance(value, float) and value in _WORDS:
        raise _refused("E503", 'this IR file has a number that is out of range; infinity is {"float": "inf"}')
    if isinstance(value, dict) and value.keys() == {"float"} and isinstance(value["float"], str):
        return _NUMBERS.get(value["float"], value)
    return value
