"""`--additional-config` and `--scheduler-cls` of vllm-ascend as options of a stage (V-002, V-013, V-050)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from serq.ir.engine_options import SCHEDULER_OPTIONS, WAITING_OPTIONS, EngineOption, Table
from serq.ir.nearest import closest


class Choice(NamedTuple):
    """What a part of the configuration stands for: the option of a stage, its kind, and what it takes."""

    option: str
    kind: str

    @property
    def table(self) -> Table:
        """The options of the kind."""
        return (WAITING_OPTIONS if self.option == "waiting" else SCHEDULER_OPTIONS)[self.kind]


_CONFIGS: Final[Mapping[str, Choice]] = {
    "short_request_first_config": Choice("waiting", "short_request_first"),
    "batch_job_sched_config": Choice("waiting", "batch_job_aware"),
    "profiling_chunk_config": Choice("scheduler", "profiling_chunk"),
    "dyntra_lb_config": Choice("scheduler", "dyntra_lb"),
}
"""Parts that are switched on by their `enabled`."""

_SWITCHES: Final[Mapping[str, Choice]] = {
    "recompute_scheduler_enable": Choice("scheduler", "recompute"),
    "enable_balance_scheduling": Choice("scheduler", "balance"),
}

_CLASSES: Final[Mapping[str, Choice | None]] = {
    "Scheduler": None,
    "AsyncScheduler": None,
    "BalanceScheduler": Choice("scheduler", "balance"),
    "ShortRequestFirstAsyncScheduler": Choice("waiting", "short_request_first"),
    "BatchJobAwareScheduler": Choice("waiting", "batch_job_aware"),
    "BatchJobAwareAsyncScheduler": Choice("waiting", "batch_job_aware"),
    "RecomputeScheduler": Choice("scheduler", "recompute"),
    "AsyncRecomputeScheduler": Choice("scheduler", "recompute"),
    "ProfilingChunkScheduler": Choice("scheduler", "profiling_chunk"),
    "DyntraLBScheduler": Choice("scheduler", "dyntra_lb"),
    "AsyncDyntraLBScheduler": Choice("scheduler", "dyntra_lb"),
    "DyntraLBRecomputeScheduler": Choice("scheduler", "dyntra_lb"),
    "AsyncDyntraLBRecomputeScheduler": Choice("scheduler", "dyntra_lb"),
}
"""Scheduler classes of vLLM and vllm-ascend -> what they stand for; None: nothing to write."""


class AscendOptions:
    """Gathers what the two flags say. ``refusals`` are what cannot be honoured."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self._chosen: dict[Choice, dict[str, str]] = {}

    @property
    def profiles_chunks(self) -> bool:
        """Whether prefills are sized by a profile."""
        return _CONFIGS["profiling_chunk_config"] in self._chosen

    def lines(self) -> list[str]:
        """The options of the stage. Where DyntraLB is on, recomputing is an option of it (V-057)."""
        chosen = {choice: dict(options) for choice, options in self._chosen.items()}
        recompute, dyntra = _SWITCHES["recompute_scheduler_enable"], _CONFIGS["dyntra_lb_config"]
        if dyntra in chosen and chosen.pop(recompute, None) is not None:
            chosen[dyntra]["recompute_scheduler_enable"] = "true"
        for option in ("waiting", "scheduler"):
            kinds = [choice.kind for choice in chosen if choice.option == option]
            if len(kinds) > 1:
                self.refusals.append(f"--additional-config: {' and '.join(kinds)} do not go together")
        return [_line(choice, options) for choice, options in chosen.items()]

    def take_class(self, value: Any) -> None:
        """`--scheduler-cls`: a class by its path."""
        name = str(value).replace(":", ".").rpartition(".")[2]
        if name not in _CLASSES:
            near = closest(name, _CLASSES.keys())
            hint = f"; did you mean {near}?" if near else ""
            self.refusals.append(f"--scheduler-cls: the scheduler `{value}` is not modelled{hint}")
            return
        choice = _CLASSES[name]
        if choice is not None:
            options = self._chosen.setdefault(choice, {})
            if "Recompute" in name and choice.kind == "dyntra_lb":
                options["recompute_scheduler_enable"] = "true"

    def take_config(self, given: Mapping[str, Any]) -> None:
        """`--additional-config`: what bears on scheduling, at its place or at its old one (V-002)."""
        for name, value in given.items():
            if name == "scheduler_config" and isinstance(value, Mapping):
                for inner, setting in value.items():
                    self._take(f"scheduler_config.{inner}", inner, setting)
            else:
                self._take(name, name, value)

    def _take(self, path: str, name: str, value: Any) -> None:
        if name in _SWITCHES and isinstance(value, bool):
            if value:
                self._chosen.setdefault(_SWITCHES[name], {})
        elif name in _CONFIGS and isinstance(value, Mapping):
            if value.get("enabled", False) is True:
                self._take_options(path, _CONFIGS[name], value)
        else:
            self._refuse(path, name, {*_SWITCHES, *_CONFIGS})

    def _take_options(self, path: str, choice: Choice, given: Mapping[str, Any]) -> None:
        options = self._chosen.setdefault(choice, {})
        for name, value in given.items():
            if name == "enabled":
                continue
            option = choice.table.get(name)
            if option is None or name in ("fixed", "recompute_scheduler_enable"):
                self._refuse(f"{path}.{name}", name, choice.table.keys() - {"fixed"})
            elif (fault := _fault(option, value)) is not None:
                self.refusals.append(f"--additional-config: `{path}.{name}` must be {fault}, not {value!r}")
            else:
                options[name] = value if isinstance(value, str) else _number(value)

    def _refuse(self, path: str, name: str, known: set[str]) -> None:
        near = closest(name, known)
        hint = f"; did you mean `{near}`?" if near and near != name else ""
        self.refusals.append(f"--additional-config: `{path}` is not modelled{hint}")


def _fault(option: EngineOption, value: Any) -> str | None:
    """What ``value`` would have to be."""
    match option.type:
        case "word":
            return None if value in option.words else f"one of {', '.join(option.words)}"
        case "switch":
            return None if isinstance(value, bool) else "true or false"
        case kind:
            whole = kind == "count"
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                return "a whole number" if whole else "a number"
            return option.fault(value)


def _number(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.10g}"


def _line(choice: Choice, options: Mapping[str, str]) -> str:
    inner = " ".join(f"{name} {value};" for name, value in options.items())
    return f"{choice.option} {choice.kind} {{ {inner} }}" if inner else f"{choice.option} {choice.kind};"
