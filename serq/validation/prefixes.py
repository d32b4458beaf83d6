"""Which prompts of a run begin alike: from a file, or known for a public workload.

Lengths alone do not say that prompts share a beginning, yet with prefix caching it changes a run (means by 3
to 5 %). The lists below were derived from the token ids of the public workload files of LLMServingSim (MIT).
A run is recognised by its prompt lengths, which identify the workload file and say nothing of any timing.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serq.errors import DataError
from serq.runtime.vllm.tokens import TokenSequence
from serq.source import read_text

_RECOGNISED_BY: Final = 100
"""Prompts whose lengths recognise a workload."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """``request`` begins with the first ``tokens`` tokens of ``earlier``; places in the run, from 0."""

    request: int
    earlier: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Workload:
    name: str
    fingerprint: str
    prefixes: str


_WORKLOADS: Final = (
    _Workload(
        "sharegpt-llama-3.1-8b-300-sps10",
        "02446c1e2710ac7a25ce6f1fbd898d3b",
        "47<40:448 66<35:624 68<28:352 79<17:848 88<27:320 93<82:624 117<45:384 128<63:832 "
        "139<117:992 140<76:384 152<31:32 158<107:608 173<153:448 174<38:1312 177<22:480 180<61:816 "
        "183<31:304 184<151:576 188<138:720 200<109:256 209<201:592 220<146:512 223<36:800 "
        "227<226:512 235<56:832 237<207:1264 265<149:592 280<147:816 281<186:816 285<165:720 "
        "287<111:448 293<163:256",
    ),
    _Workload(
        "sharegpt-qwen3-32b-300-sps10, sharegpt-qwen3-30b-a3b-300-sps10",
        "7eb0cf4321c47885e56c2865863b4644",
        "47<40:480 67<35:640 70<28:352 82<17:1344 91<27:320 96<85:624 122<45:416 133<64:848 "
        "146<122:1072 147<78:384 159<31:32 165<112:624 180<160:464 181<38:1344 185<22:496 188<62:816 "
        "189<184:256 192<31:304 193<158:576 197<145:720 209<114:256 218<210:592 229<153:512 "
        "232<36:896 236<235:512 245<57:832 247<216:1264 276<156:624 291<154:848 292<195:816 "
        "296<172:736 298<116:448",
    ),
)


def known_prefixes(prompt_lengths: Sequence[int]) -> tuple[str, tuple[SharedPrefix, ...]] | None:
    """The public workload with these prompts and what they share; None: none that is known."""
    if len(prompt_lengths) < _RECOGNISED_BY:
        return None
    beginning = ",".join(map(str, prompt_lengths[:_RECOGNISED_BY]))
    fingerprint = hashlib.sha256(beginning.encode()).hexdigest()[:32]
    for workload in _WORKLOADS:
        if workload.fingerprint == fingerprint:
            return workload.name, _parse(workload.prefixes, len(prompt_lengths))
    return None


def _parse(text: str, requests: int) -> tuple[SharedPrefix, ...]:
    prefixes = []
    for item in text.split():
        request, _, rest = item.partition("<")
        earlier, _, tokens = rest.partition(":")
        if int(request) < requests:
            prefixes.append(SharedPrefix(int(request), int(earlier), int(tokens)))
    return tuple(prefixes)


def read_prefixes(path: Path, prompt_lengths: Sequence[int]) -> tuple[SharedPrefix, ...]:
    """Read rows ``request,earlier,tokens``. Raises DataError, with file and line, for one that cannot be."""
    rows = csv.reader(read_text(path, "prefixes").splitlines())
    header = [name.strip() for name in next(rows, [])]
    if header != ["request", "earlier", "tokens"]:
        raise DataError(f"{path}:1: expected the header request,earlier,tokens")
    prefixes: list[SharedPrefix] = []
    seen: set[int] = set()
    for row in rows:
        if not row:
            continue
        place = f"{path}:{rows.line_num}"
        if len(row) != 3 or not all(field.strip().isdecimal() for field in row):
            raise DataError(f"{place}: expected three whole numbers request,earlier,tokens")
        request, earlier, tokens = map(int, row)
        if not earlier < request < len(prompt_lengths):
            raise DataError(f"{place}: `earlier` must come before `request`, and both in the run, from 0")
        if tokens > min(prompt_lengths[request], prompt_lengths[earlier]):
            raise DataError(f"{place}: {tokens} tokens are more than one of the two prompts has")
        if request in seen:
            raise DataError(f"{place}: request {request} has a row already")
        seen.add(request)
        prefixes.append(SharedPrefix(request, earlier, tokens))
    return tuple(prefixes)


def prompts(prompt_lengths: Sequence[int], prefixes: Sequence[SharedPrefix]) -> list[TokenSequence]:
    """The prompts of a run, equal exactly where they share a beginning."""
    shared = {prefix.request: prefix for prefix in prefixes}
    sequences: list[TokenSequence] = []
    for index, length in enumerate(prompt_lengths):
        prefix = shared.get(index)
        begins = () if prefix is None else sequences[prefix.earlier].prefix(prefix.tokens)
        sequence = TokenSequence(begins)
        sequence.append(f"prompt {index}", sequence.length, length - sequence.length)
        sequences.append(sequence)
    return sequences
