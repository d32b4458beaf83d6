"""Kinds of executors by name: from a declared executor to the object that prices steps.

A kind stands in three places: its options in ``serq.ir.executor_options``, its factory here, its page in
docs/executors.md. Factories are imported when a program names their kind, so a kind may need packages that
others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from serq.errors import RunError
from serq.ir.engine_options import EngineOption
from serq.ir.executor_options import EXECUTOR_KINDS
from serq.ir.serving import Executor as DeclaredExecutor
from serq.kernels.executor import BatchTotals, Executor
from serq.kernels.layout import LayoutEngine
from serq.source import Diagnostic

FACTORIES: Final[Mapping[str, str]] = {
    "roofline": "serq.kernels.roofline.factory:build",
    "table": "serq.kernels.tables.factory:build",
    "measured": "serq.kernels.measured.factory:build",
    "torch": "serq.kernels.measuring.factory:build_torch",
    "torch_npu": "serq.kernels.measuring.factory:build_npu",
}
"""Kind -> module and function of its factory."""

CHECKS: Final[Mapping[str, str]] = {
    "roofline": "serq.kernels.roofline.factory:check",
    "table": "serq.kernels.tables.factory:check",
    "torch": "serq.kernels.measuring.factory:check_torch",
    "torch_npu": "serq.kernels.measuring.factory:check_npu",
}
"""Kind -> module and function of what is certain without a stage and without reading a file."""

Rule = Callable[[BatchTotals], float]
"""An expression of the program over the step that is priced."""


@dataclass(frozen=True, slots=True)
class PricedStage:
    """What prices may depend on of the stage whose steps they are; None: the stage has no such limit.

    ``folder`` is that of the program, to which file names are relative.
    """

    name: str
    folder: Path = Path()
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    num_gpu_blocks: int | None = None
    speculative_method: str | None = None
    num_speculative_tokens: int = 0
    chunked_prefill: bool = True
    data_parallel_size: int = 1
    layout: LayoutEngine | None = None
    """How the stage says that its steps lie on the device; None: it does not say."""


class Setting(NamedTuple):
    """One figure that prices rest on, as the report shows it: its name, its value, where it comes from."""

    name: str
    value: str
    source: str


class Origin(NamedTuple):
    """Measurements that prices rest on: where they are kept, the device they were made on, and when.

    Empty where their source does not say.
    """

    file: str
    device: str
    date: str


class CacheRequest(NamedTuple):
    """What an engine says about its KV cache; ``block_size`` is that of its full attention."""

    gpu_memory_utilization: float
    block_size: int
    state_groups: int


class Memory(Protocol):
    """Computes the KV cache of the engine that an executor prices."""

    def num_gpu_blocks(self, request: CacheRequest) -> tuple[int, tuple[Setting, ...]]:
        """The blocks of the pool, and the figures that they follow from. Raises RunError without room."""


@dataclass(frozen=True, slots=True)
class BuiltExecutor:
    """An executor, and what its prices rest on."""

    executor: Executor
    settings: tuple[Setting, ...] = ()
    memory: Memory | None = None
    """Where it knows the device: what it leaves for the KV cache of an engine."""
    origins: tuple[Origin, ...] = ()
    """The measurements that it uses; none: what its prices rest on is stated or assumed."""


class ExecutorOptions:
    """The options of one declared executor, defaults filled in."""

    def __init__(self, declared: DeclaredExecutor, rules: Mapping[str, Rule]) -> None:
        self.name = declared.name
        self._table = EXECUTOR_KINDS[declared.kind].options
        self._written = {option.name: option.value for option in declared.options}
        self._rules = rules

    def written(self, name: str) -> bool:
        """Whether the program says it."""
        return name in self._written

    def text(self, name: str) -> str:
        """A string, a word or a name."""
        return str(self._value(name))

    def count(self, name: str) -> int:
        """A whole number."""
        value = self._value(name)
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        """A number."""
        value = self._value(name)
        assert isinstance(value, int | float)
        return float(value)

    def switch(self, name: str) -> bool:
        """True or false."""
        return bool(self._value(name))

    def optional_number(self, name: str) -> float | None:
        """A number, None where the program says none and there is no default."""
        return None if self._value(name) is None else self.number(name)

    def source(self, name: str) -> str:
        """Where the value of an option comes from, for the report."""
        return "the program" if self.written(name) else "default"

    def rule(self, name: str) -> str | Rule:
        """A word, or the expression as a function of the step."""
        return self._rules[name] if name in self._rules else self.text(name)

    def quantity(self, name: str) -> float | Rule:
        """A number, or the expression as a function of the step."""
        return self._rules[name] if name in self._rules else self.number(name)

    def fault(self, message: str, help: str | None = None) -> RunError:
        """The error that this executor cannot be built, for the caller to raise."""
        owner = f"executor `{self.name}`"
        diagnostic = (
            None
            if help is None
            else Diagnostic("executor-options", "no step can be priced", owner=owner, help=help)
        )
        return RunError(f"{owner}: {message}", code="executor-options", diagnostic=diagnostic)

    def _value(self, name: str) -> object:
        option: EngineOption = self._table[name]
        return self._written.get(name, option.default)


Factory = Callable[[ExecutorOptions, PricedStage], BuiltExecutor]


def create_executor(
    declared: DeclaredExecutor, stage: PricedStage, rules: Mapping[str, Rule] | None = None
) -> BuiltExecutor:
    """The executor that ``declared`` describes, for the steps of ``stage``.

    ``rules`` are the options that are expressions. Raises RunError for options that cannot be met: an unknown
    model or device, heads that do not divide, a file that is not there.
    """
    factory: Factory = _imported(FACTORIES[declared.kind])
    return factory(ExecutorOptions(declared, rules or {}), stage)


def check_executor(declared: DeclaredExecutor) -> None:
    """Raise RunError for options that no stage and no file could make right, such as an unknown model."""
    if declared.kind in CHECKS:
        _imported(CHECKS[declared.kind])(ExecutorOptions(declared, {}))


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
