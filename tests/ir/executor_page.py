"""``python -m tests.ir.executor_page`` writes docs/executor-options.md anew from the table of options."""

from __future__ import annotations

from serq.ir.engine_options import EngineOption
from serq.ir.executor_options import EXECUTOR_KINDS
from tests.shared import ROOT

PAGE = ROOT / "docs" / "executor-options.md"
_TYPES = {
    "count": "whole number",
    "number": "number",
    "switch": "`true` or `false`",
    "text": "a string",
    "name": "a name",
    "quantity": "number or an expression",
}
_HEAD = """# Options of executors

Written by `python -m tests.ir.executor_page` from `serq/ir/executor_options.py`; a test holds both together.
What each kind computes stands in [executors.md](executors.md).
"""


def page() -> str:
    parts = [_HEAD]
    for kind in EXECUTOR_KINDS.values():
        stages = "of `vllm` and `step` stages" if kind.prices_totals else "of `vllm` stages"
        table = "| option | value | default | meaning |\n|---|---|---|---|\n"
        table += "".join(map(_row, kind.options.values()))
        parts.append(f"## {kind.name}\n\nPrices the steps {stages}: {kind.meaning}.\n\n{table}")
    return "\n".join(parts)


def _row(option: EngineOption) -> str:
    words = ", ".join(f"`{word}`" for word in option.words)
    value = {"word": words, "rule": f"{words}, or an expression"}.get(option.type) or _TYPES[option.type]
    limits = [f"from {option.low:g}"] if option.low > float("-inf") else []
    limits += [f"to {option.high:g}"] if option.high < float("inf") else []
    default = "required" if option.required else _default(option)
    return f"| `{option.name}` | {', '.join([value, *limits])} | {default} | {option.meaning} |\n"


def _default(option: EngineOption) -> str:
    if option.default is None:
        return "-"
    return f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
