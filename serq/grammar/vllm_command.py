"""From a `vllm serve` command line to the `vllm` stage that means the same.

All spellings of vLLM 0.27.1 are read: ``--name value``, ``--name=value``, ``--no-name``, short ones, JSON,
dots into JSON, and numbers such as 8k (8000) and 8K (8192).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from serq.errors import UsageError
from serq.grammar.vllm_ascend_command import AscendOptions
from serq.ir.engine_options import ENGINE_OPTIONS, SPECULATIVE_METHODS, EngineOption
from serq.ir.nearest import closest
from serq.ir.vllm_flags import IGNORED, NOT_MODELLED

_SHORT: Final = {
    "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size", "pcp": "prefill_context_parallel_size", "sc": "speculative_config",
    "ep": "enable_expert_parallel", "q": "quantization", "n": "nnodes", "r": "node_rank",
    "O": "optimization_level", "cc": "compilation_config", "ac": "attention_config",
    "dpn": "data_parallel_rank", "dpl": "data_parallel_size_local",
}  # fmt: skip
_LONG: Final = {
    "spec_method": "speculative_config.method",
    "spec_tokens": "speculative_config.num_speculative_tokens",
    "spec_model": "speculative_config.model",
}
_OF_FLAG: Final = {option.flag: option for option in ENGINE_OPTIONS.values() if option.flag}
_SPECIAL: Final = (
    *("scheduling_policy", "kv_transfer_config", "speculative_config"),
    *("additional_config", "scheduler_cls"),
)
_HUMAN: Final = frozenset({"max_num_batched_tokens", "max_num_scheduled_tokens", "max_model_len"})
"""Options whose numbers vLLM reads with a suffix."""

_SUFFIXES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
                    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}  # fmt: skip
_BY_DEVICE: Final = ("max_num_batched_tokens", "max_num_seqs")
"""Options that `vllm serve` sets by the device where they are not given."""


@dataclass
class StageText:
    """A stage, what was left out of it, and what could not be honoured."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    members: int = 1
    """Members of the family: the data-parallel ranks."""
    ascend: AscendOptions = field(default_factory=AscendOptions)

    def render(self, name: str) -> str:
        """The stage as program text, its notes as comments above it."""
        notes = [f"// {note}" for note in self.notes]
        family = name if self.members == 1 else f"{name}[{self.members}]"
        return "\n".join([*notes, f"stage {family} : vllm {{", *(f"  {line}" for line in self.lines), "}"])


def stage_of_command(command: str) -> StageText:
    """The stage that a command line configures. Raises UsageError for one that cannot be read."""
    text = StageText()
    options: dict[str, Any] = {}
    for name, value in _flags(_words(command)):
        root, _, path = _LONG.get(name, name).partition(".")
        if path:
            _put(options, root, path, value)
        else:
            options[root] = value
    for name, value in options.items():
        _take(text, name, value)
    _complete(text, options)
    return text


# --- words and flags ----------------------------------------------------------------------------------------


def _words(command: str) -> list[str]:
    """The arguments behind `vllm serve`, or behind what starts the server otherwise."""
    try:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise UsageError(f"this command line cannot be read: {error}") from None
    if "serve" in words:
        return words[words.index("serve") + 1 :]
    starts = [index for index, word in enumerate(words) if word.startswith("vllm.entrypoints")]
    if starts:
        return words[starts[0] + 1 :]
    if words and words[0].startswith("-"):
        return words
    raise UsageError("this is no command line of vLLM: it has no `vllm serve`")


def _flags(words: list[str]) -> Iterator[tuple[str, str | bool]]:
    """(option, value); a flag without a value is true, or false behind `--no-`."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not re.match(r"--?[A-Za-z]", word):
            continue
        flag, equals, given = word.lstrip("-").partition("=")
        name = _name(flag, short=not word.startswith("--"))
        if equals:
            yield name, given
            continue
        values = []
        while index < len(words) and not re.match(r"--?[A-Za-z]", words[index]):
            values.append(words[index])
            index += 1
            if name in _OF_FLAG or name in _SPECIAL:
                break
        if values and not _is_switch(name):
            yield name, values[0]
        elif name.startswith("no_"):
            yield name.removeprefix("no_"), False
        else:
            yield name, True


def _name(flag: str, *, short: bool) -> str:
    root, dot, path = flag.partition(".")
    name = root.replace("-", "_")
    return (_SHORT.get(name, name) if short else name) + dot + path


def _is_switch(name: str) -> bool:
    option = _OF_FLAG.get(name.removeprefix("no_"))
    return option is not None and option.type == "switch"


def _put(options: dict[str, Any], root: str, path: str, value: str | bool) -> None:
    """`--name.a.b value` puts a value into the JSON of `--name`."""
    target = options.setdefault(root, {})
    if not isinstance(target, dict):
        target = options[root] = _json(root, target)
    *outer, last = path.split(".")
    for key in outer:
        target = target.setdefault(key.replace("-", "_"), {})
    try:
        target[last.replace("-", "_")] = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        target[last.replace("-", "_")] = value


def _json(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"--{name.replace('_', '-')} takes a JSON object, not `{value}`")
    return found


# --- options ------------------------------------------------------------------------------------------------


def _take(text: StageText, name: str, value: Any) -> None:
    flag = f"--{name.replace('_', '-')}"
    if name.endswith("_parallel_size") and value == "1":
        text.notes.append(f"{flag} is left out: it is off")
    elif name in _OF_FLAG:
        _plain(text, _OF_FLAG[name], value, flag)
    elif name == "scheduling_policy":
        _policy(text, value, flag)
    elif name == "speculative_config":
        _speculative(text, _json(name, value), flag)
    elif name == "kv_transfer_config":
        _transfer(text, _json(name, value), flag)
    elif name == "additional_config":
        text.ascend.take_config(_json(name, value))
    elif name == "scheduler_cls":
        text.ascend.take_class(value)
    elif name in IGNORED:
        text.notes.append(f"{flag} is left out: it {IGNORED[name]}")
    elif value is False:
        text.notes.append(f"{flag} is left out: it is off")
    elif name in NOT_MODELLED:
        text.refusals.append(f"{flag}: {NOT_MODELLED[name]}")
    else:
        near = closest(name, {*_OF_FLAG, *_SPECIAL, *IGNORED, *NOT_MODELLED})
        hint = f"; did you mean --{near.replace('_', '-')}?" if near else ""
        text.refusals.append(f"{flag}: vLLM 0.27.1 has no such option that is known here{hint}")


def _plain(text: StageText, option: EngineOption, value: Any, flag: str) -> None:
    if option.type == "switch":
        if value not in (True, False):
            text.refusals.append(f"{flag} takes no value; turn it off with --no-{flag[2:]}")
            return
        text.lines.append(f"{option.name} {str(value).lower()};")
        return
    if not isinstance(value, str):
        text.refusals.append(f"{flag} takes a value")
        return
    try:
        number = _number(value, option)
    except ValueError:
        text.refusals.append(f"{flag}: `{value}` is not a {'whole ' * (option.type == 'count')}number")
        return
    fault = option.fault(number)
    if fault is not None:
        text.refusals.append(f"{flag}: it must be {fault}, not {value}")
    else:
        text.lines.append(f"{option.name} {number:.10g};")


def _number(value: str, option: EngineOption) -> float:
    """A number as vLLM reads it. Raises ValueError for what it would not take."""
    if option.type != "count":
        return float(value)
    scaled = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", value.strip())
    if scaled is None or option.flag not in _HUMAN:
        return int(value)
    digits, suffix = scaled.groups()
    return int((float if suffix.islower() else int)(digits) * _SUFFIXES[suffix])


def _policy(text: StageText, value: Any, flag: str) -> None:
    if value in ("fcfs", "priority"):
        text.lines.append(f"waiting {value};")
    else:
        text.refusals.append(f"{flag}: it is `fcfs` or `priority`, not `{value}`")


def _speculative(text: StageText, given: dict[str, Any], flag: str) -> None:
    method, drafts = given.pop("method", None), given.pop("num_speculative_tokens", None)
    if method not in SPECULATIVE_METHODS:
        text.refusals.append(f"{flag}: say its `method`, one of {', '.join(SPECULATIVE_METHODS)}")
        return
    if not isinstance(drafts, int) or isinstance(drafts, bool) or drafts < 1:
        text.refusals.append(f"{flag}: say its `num_speculative_tokens`, a whole number from 1")
        return
    text.lines.append(f"speculative {method} {{ k {drafts}; }}")
    text.notes.append("how often drafts are taken is not on the command line: add `accept` to `speculative`")
    text.notes += [f"`{key}` of {flag} is left out: the chances of `accept` stand for it" for key in given]


def _transfer(text: StageText, given: dict[str, Any], flag: str) -> None:
    role = given.pop("kv_role", None)
    connector = given.pop("kv_connector", None)
    policy = given.pop("kv_load_failure_policy", None)
    for key, word, words in (
        ("kv_role", role, ENGINE_OPTIONS["kv_role"].words),
        ("kv_load_failure_policy", policy, (None, *ENGINE_OPTIONS["kv_load_failure_policy"].words)),
    ):
        if word not in words:
            choices = ", ".join(choice for choice in words if choice)
            text.refusals.append(f"{flag}: `{key}` is one of {choices}, not `{word}`")
            return
    text.lines += ["kv_connector kv_link;", f"kv_role {role};"]
    if policy is not None:
        text.lines.append(f"kv_load_failure_policy {policy};")
    text.notes.append(
        f"declare what {connector} costs: `connector kv_link : transfer {{ over STAGE; work …; }}`"
    )
    text.notes += [f"`{key}` of {flag} is left out: the connector stands for it" for key in given]


def _parallel(text: StageText) -> None:
    """Ranks are the members of a family; a pipeline is modelled where chunks are sized for it (V-060)."""
    for line in text.lines:
        name, _, value = line.rstrip(";").partition(" ")
        if name == "data_parallel_size":
            text.members = int(value)
            text.notes.append(
                "vLLM's front end sends a request to the rank with the least 4 * waiting + running: "
                f"`choose j in {value} by (4 * waiting(NAME[j]) + running(NAME[j]));`"
            )
        elif name == "pipeline_parallel_size" and not text.ascend.profiles_chunks:
            reason = "a pipeline is modelled only with `profiling_chunk_config` of --additional-config"
            text.refusals.append(f"--pipeline-parallel-size: {reason}")


def _complete(text: StageText, options: dict[str, Any]) -> None:
    """Say what depends on several options, and what is left to the device or to a measurement."""
    _parallel(text)
    text.lines += text.ascend.lines()
    text.refusals += text.ascend.refusals
    for name in _BY_DEVICE:
        if name not in options:
            default = ENGINE_OPTIONS[name].default
            text.notes.append(f"`vllm serve` sets {name} by the device; without it the stage has {default}")
    if "max_model_len" not in options:
        text.lines.append("// max_model_len …;   of the model: vLLM logs it when it starts")
    if "num_gpu_blocks_override" not in options:
        text.lines.append("// num_gpu_blocks …;  vLLM logs the size of its KV cache when it starts")
    text.lines.append("// cost …;            what a step takes, in seconds")
