"""``python -m tests.ir.options_page`` writes docs/vllm-options.md anew from the table of options."""

from __future__ import annotations

from collections.abc import Iterable

from serq.ir.engine_options import (
    ENGINE_OPTIONS,
    GROUP_KINDS,
    GROUP_OPTIONS,
    LAYOUT_OPTIONS,
    SCHEDULER_OPTIONS,
    SPECULATIVE_METHODS,
    SPECULATIVE_OPTIONS,
    WAITING_OPTIONS,
    EngineOption,
)
from serq.ir.vllm_flags import IGNORED, NOT_MODELLED
from tests.shared import ROOT

PAGE = ROOT / "docs" / "vllm-options.md"
_TYPES = {
    "count": "whole number",
    "number": "number",
    "switch": "`true` or `false`",
    "name": "a name",
    "numbers": "numbers",
    "counts": "whole numbers",
}
_HEAD = """# Options of a vllm stage

Written by `python -m tests.ir.options_page` from `serq/ir/engine_options.py`; a test holds both together.
Names, limits and defaults are those of the configuration classes of vLLM 0.27.1. What the stage means stands
in [language-serving.md](language-serving.md).
"""


def page() -> str:
    parts = [_HEAD, _table("The stage", ENGINE_OPTIONS.values())]
    parts.append(_table("`group KIND { … }`", GROUP_OPTIONS.values()))
    kinds = (f"`{kind}` takes {_list(options)}." for kind, options in GROUP_KINDS.items())
    parts.append("\n".join(kinds) + "\n")
    parts.append(_table("`speculative METHOD { … }`", SPECULATIVE_OPTIONS.values()))
    parts.append(f"METHOD is one of {_list(SPECULATIVE_METHODS)}.\n")
    for kind, options in WAITING_OPTIONS.items():
        if options:
            parts.append(_table(f"`waiting {kind} {{ … }}`", options.values()))
    parts.append("`waiting fcfs`, `waiting priority` and `waiting by (keys)` take no options.\n")
    for kind, options in SCHEDULER_OPTIONS.items():
        if options:
            parts.append(_table(f"`scheduler {kind} {{ … }}`", options.values()))
    for kind, options in LAYOUT_OPTIONS.items():
        parts.append(_table(f"`layout {kind} {{ … }}`", options.values()))
    parts.append("## Not in a stage\n\n| option of vLLM | why |\n|---|---|")
    rows = [(name, f"it {why}") for name, why in IGNORED.items()] + list(NOT_MODELLED.items())
    parts[-1] += "".join(f"\n| `{name}` | {why} |" for name, why in sorted(rows)) + "\n"
    return "\n".join(parts)


def _table(title: str, options: Iterable[EngineOption]) -> str:
    head = f"## {title}\n\n| option | value | default | meaning | on vLLM's command line | rules |\n"
    return head + "|---|---|---|---|---|---|\n" + "".join(map(_row, options))


def _row(option: EngineOption) -> str:
    kind = _list(option.words) if option.type == "word" else _TYPES[option.type]
    limits = [f"from {option.low:g}"] if option.low > float("-inf") else []
    limits += [f"to {option.high:g}"] if option.high < float("inf") else []
    limits += [f"below {option.below:g}"] if option.below < float("inf") else []
    value = ", ".join([kind, *limits])
    default = "required" if option.required else _default(option)
    flag = f"`--{option.flag.replace('_', '-')}`" if option.flag else ""
    return f"| `{option.name}` | {value} | {default} | {option.meaning} | {flag} | {option.rules} |\n"


def _default(option: EngineOption) -> str:
    if option.default is None:
        return "-"
    return f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"


def _list(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
