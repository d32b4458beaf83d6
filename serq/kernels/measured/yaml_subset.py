"""The part of YAML that `meta.yaml` of an operator table is written in.

Mappings by indentation, `- item` lists of scalars, `[…]` lists that may go over several lines, plain and
quoted scalars, comments on lines of their own. No anchors, block texts or `{…}` with something in it: what is
not understood is refused with its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serq.errors import DataError
from serq.source import read_text

_KEY = re.compile(r"(?P<key>'[^']*'|\"[^\"]*\"|[^\s'\"\[\]{}#,&*!|>-][^:]*?)\s*:(?:\s+(?P<value>.*))?")
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_FLOW_ITEM = re.compile(r"\s*('[^']*'|\"[^\"]*\"|[^\[\],'\"{}]+)\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping that a file holds; keys are texts. Raises DataError with file and line."""
    return _Reader(path, read_text(path, "operator table")).read()


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = list(self._logical_lines(text))
        self._at = 0

    def read(self) -> dict[str, Any]:
        if not self._lines:
            raise DataError(f"{self._path}: holds nothing")
        value = self._block(self._lines[0].indent)
        if self._at < len(self._lines):
            raise self._fault(self._lines[self._at], "is indented like no line above it")
        if not isinstance(value, dict):
            raise DataError(f"{self._path}: holds a list where `key: value` lines are expected")
        return value

    def _logical_lines(self, text: str) -> list[_Line]:
        """Lines with something in them; one whose bracket is open goes on with the next."""
        lines: list[_Line] = []
        open_brackets = 0
        for number, raw in enumerate(text.splitlines(), 1):
            stripped = raw.strip()
            if not stripped or stripped.startswith("#") or stripped in ("---", "..."):
                continue
            if open_brackets > 0:
                last = lines[-1]
                lines[-1] = _Line(last.number, last.indent, f"{last.text} {stripped}")
            else:
                lines.append(_Line(number, len(raw) - len(raw.lstrip(" ")), stripped))
            bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", stripped)
            open_brackets += bare.count("[") - bare.count("]")
        return lines

    def _block(self, indent: int) -> Any:
        """The mapping or list whose lines begin at ``indent``."""
        if self._lines[self._at].text.startswith("- "):
            return self._items(indent)
        mapping: dict[str, Any] = {}
        while self._at < len(self._lines) and self._lines[self._at].indent == indent:
            line = self._lines[self._at]
            match = _KEY.fullmatch(line.text)
            if match is None:
                raise self._fault(line, "is not `key: value`")
            key = match["key"].strip("'\"")
            if key in mapping:
                raise self._fault(line, f"`{key}` stands twice")
            self._at += 1
            mapping[key] = self._value(line, match["value"] or "")
        return mapping

    def _items(self, indent: int) -> list[Any]:
        items: list[Any] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.indent != indent or not line.text.startswith("- "):
                break
            items.append(self._scalar(line, line.text[2:].strip()))
            self._at += 1
        return items

    def _value(self, line: _Line, text: str) -> Any:
        """What stands after a key: a scalar, a flow list, or the indented lines that follow."""
        if text:
            return self._scalar(line, text)
        if self._at < len(self._lines):
            following = self._lines[self._at]
            if following.indent > line.indent or (
                following.indent == line.indent and following.text.startswith("- ")
            ):
                return self._block(following.indent)
        return None

    def _scalar(self, line: _Line, text: str) -> Any:
        if text[0] not in "'\"":
            text = text.partition(" #")[0].rstrip()
        if text == "{}":
            return {}
        if text[0] in "&*!|>{%@`":
            raise self._fault(line, f"`{text[0]}` is more of YAML than is read here")
        if text.startswith("["):
            return self._flow_list(line, text)
        if text[0] in "'\"":
            if len(text) < 2 or text[-1] != text[0]:
                raise self._fault(line, "a quote is not closed")
            return text[1:-1]
        if text in _WORDS:
            return _WORDS[text]
        if _NUMBER.fullmatch(text):
            return float(text) if re.search(r"[.eE]", text) else int(text)
        return text

    def _flow_list(self, line: _Line, text: str) -> list[Any]:
        if not text.endswith("]"):
            raise self._fault(line, "`[` is not closed")
        inner = text[1:-1].strip()
        items: list[Any] = []
        at = 0
        while at < len(inner):
            match = _FLOW_ITEM.match(inner, at)
            if match is None:
                raise self._fault(line, f"no list item can be read at `{inner[at : at + 20]}`")
            items.append(self._scalar(line, match[1].strip()))
            at = match.end()
        return items

    def _fault(self, line: _Line, reason: str) -> DataError:
        return DataError(f"{self._path}:{line.number}: {reason}\n  {line.text[:100]}")
