"""Executors: their kinds and options (docs/executors.md)."""

from __future__ import annotations

from serq.ir.engine_options import EngineOption
from serq.ir.executor_options import EXECUTOR_KINDS
from serq.ir.moments import Moment
from serq.ir.nearest import closest
from serq.ir.nodes import Executor, Node
from serq.ir.serving import ExecutorOption
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.problem import Findings

_TYPES = {
    "count": (int,),
    "number": (int, float),
    "switch": (bool,),
    "word": (str,),
    "name": (str,),
    "text": (str,),
    "rule": (str, Node),
    "quantity": (int, float, Node),
}


def check_executor(executor: Executor, findings: Findings, expressions: Expressions) -> None:
    """An executor whose kind is known has the options of that kind, each once, and those it needs."""
    kind = EXECUTOR_KINDS.get(executor.kind)
    if kind is None:
        kinds = ", ".join(EXECUTOR_KINDS)
        findings.error("E225", f"an executor is one of {kinds}, not `{executor.kind}`", executor)
        return
    written: set[str] = set()
    for option in executor.options:
        known = kind.options.get(option.name)
        if known is None:
            near = closest(option.name, kind.options)
            help_ = None if near is None else f"did you mean `{near}`?"
            message = f"an executor of kind `{kind.name}` has no option `{option.name}`"
            findings.error("E222", message, option, help=help_)
        elif option.name in written:
            findings.error("E223", f"`{option.name}` is given twice", option)
        else:
            _check_option(option, known, findings, expressions)
        written.add(option.name)
    for known in kind.options.values():
        if known.required and known.name not in written:
            message = f"executor `{executor.name}` needs `{known.name}`: {known.meaning}"
            findings.error("E217", message, executor, help=f"add `{known.name} …;`", whole=True)


def _check_option(
    option: ExecutorOption, known: EngineOption, findings: Findings, expressions: Expressions
) -> None:
    value = option.value
    types = _TYPES[known.type]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        findings.error("E225", f"`{known.name}` takes a {known.type}", option)
    elif isinstance(value, Node):
        expressions.check(value, Moment.EXECUTOR)
    elif isinstance(value, str):
        if known.words and value not in known.words:
            words = ", ".join(f"`{word}`" for word in known.words)
            findings.error("E225", f"`{known.name}` is one of {words}, not `{value}`", option)
    elif (fault := known.fault(value)) is not None:
        findings.error("E433", f"`{known.name}` must be {fault}, not {value:g}", option)
