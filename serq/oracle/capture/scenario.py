"""A scenario: the engine's settings, the load and the scripted outside world. Times are integer microseconds.

The classes mirror the JSON of a scenario file field by field; a field they do not know is refused, so that
a misspelt setting can never be recorded as if it had been obeyed. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, TypeVar

from serq.errors import DataError

_T = TypeVar("_T")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """One KV cache group; only the field of its own kind (window, chunk, mode) is read."""

    kind: Literal["full", "sliding", "chunked_local", "mamba"]
    block_size: int | None = None
    window: int = 0
    chunk: int = 0
    mode: Literal["none", "align", "all"] = "none"
    num_speculative_blocks: int = 0
    eagle: bool = False
    name: str | None = None

    def resolved_block_size(self, max_model_len: int) -> int:
        """Tokens per block: 16 by default, for a mamba group the longest sequence."""
        if self.block_size is not None:
            return self.block_size
        return max_model_len if self.kind == "mamba" else 16


@dataclass(frozen=True, slots=True)
class Engine:
    """The settings of the engine under vLLM's own names."""

    max_num_batched_tokens: int = 2048
    max_num_scheduled_tokens: int | None = None
    max_num_seqs: int = 128
    max_model_len: int = 4096
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: Literal["fcfs", "priority"] = "fcfs"
    async_scheduling: bool = False
    reserve_full_isl: bool = True
    watermark: float = 0.0
    enable_prefix_caching: bool = True
    num_gpu_blocks: int = 1024
    prefix_match_unit: int | None = None
    retention_interval: int | None = None
    prefill_schedule_interval: int = 1
    v2_model_runner: bool = False
    groups: tuple[Group, ...] = (Group("full", 16),)


@dataclass(frozen=True, slots=True)
class Cost:
    """A step of n > 0 tokens and m requests takes base + per_token * n + per_seq * m; an empty one 0."""

    base: int = 0
    per_token: int = 0
    per_seq: int = 0

    def of(self, num_tokens: int, num_requests: int) -> int:
        """The duration of a step, in microseconds."""
        if not num_tokens:
            return 0
        return self.base + self.per_token * num_tokens + self.per_seq * num_requests


@dataclass(frozen=True, slots=True)
class Spec:
    """Speculative decoding, and how many drafts the script proposes and accepts."""

    method: str
    k: int
    accept: tuple[int, ...] = (0,)
    draft_len: tuple[int, ...] | None = None
    per_batch_size: tuple[tuple[int, int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """The KV connector: our scripted one, or one of vLLM's by its class name."""

    name: str
    role: Literal["kv_both", "kv_producer", "kv_consumer"] = "kv_both"
    load_failure_policy: Literal["recompute", "fail"] = "recompute"


@dataclass(frozen=True, slots=True)
class Stop:
    """Output ``at`` is the stop token, or from ``at`` on all outputs are the same token (repeat)."""

    kind: Literal["eos", "token", "repeat"]
    at: int
    count: int = 0


@dataclass(frozen=True, slots=True)
class Continues:
    """The prompt starts with the first ``len`` tokens of request ``id``: its prompt, then its outputs."""

    id: str
    len: int


@dataclass(frozen=True, slots=True)
class ArrivingRequest:
    """A request and everything scripted about it. ``kv`` is handed to the connector as it is."""

    id: str
    t: int
    prompt: int
    max_tokens: int
    priority: int = 0
    prefix_group: int | None = None
    prefix_len: int = 0
    continues: Continues | None = None
    stop: Stop | None = None
    min_tokens: int = 0
    skip_cache: bool = False
    kv: dict[str, Any] | None = None
    accept: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something other than an arrival that happens to the engine at ``t``."""

    t: int
    op: Literal["abort", "reset_prefix_cache", "pause"]
    id: str | None = None
    running: bool = False
    state: Literal["UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"] = "UNPAUSED"


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What to write down: digests instead of rows, block tables, queues."""

    level: Literal["full", "digest"] = "full"
    blocks: bool = False
    queues: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recording's whole input."""

    engine: Engine
    cost: Cost
    requests: tuple[ArrivingRequest, ...]
    spec: Spec | None = None
    kv_connector: Connector | None = None
    events: tuple[Event, ...] = ()
    trace: TraceOptions = field(default_factory=TraceOptions)
    name: str = ""
    note: str = ""

    @classmethod
    def from_json(cls, data: Json) -> Scenario:
        """Read a scenario object. Raises DataError naming the field that is unknown, missing or double."""
        known = dict(data)
        engine = dict(known.pop("engine", {}))
        groups = engine.pop("groups", None)
        if groups is not None:
            engine["groups"] = tuple(_read(Group, g, f"engine.groups[{i}]") for i, g in enumerate(groups))
        requests = tuple(_read_request(r, f"requests[{i}]") for i, r in enumerate(known.pop("requests", ())))
        _refuse_doubles(requests)
        nested = {
            "engine": _read(Engine, engine, "engine"),
            "cost": _read(Cost, known.pop("cost", {}), "cost"),
            "requests": requests,
            "spec": _read_optional(Spec, known.pop("spec", None), "spec"),
            "kv_connector": _read_optional(Connector, known.pop("kv_connector", None), "kv_connector"),
            "events": tuple(_read(Event, e, f"events[{i}]") for i, e in enumerate(known.pop("events", ()))),
            "trace": _read(TraceOptions, known.pop("trace", {}), "trace"),
        }
        return _read(cls, {**known, **nested}, "scenario")


def _read_request(data: Json, where: str) -> ArrivingRequest:
    parts = dict(data)
    parts["stop"] = _read_optional(Stop, parts.get("stop"), f"{where}.stop")
    parts["continues"] = _read_optional(Continues, parts.get("continues"), f"{where}.continues")
    return _read(ArrivingRequest, parts, where)


def _read_optional(cls: type[_T], data: Json | None, where: str) -> _T | None:
    return None if data is None else _read(cls, data, where)


def _read(cls: type[_T], data: Json, where: str) -> _T:
    if not isinstance(data, Mapping):
        raise DataError(f"{where}: an object is expected, not {data!r}")
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(known)):
        raise DataError(f"{where}: unknown field {unknown[0]!r}; known are {', '.join(known)}")
    required = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in required if name not in data]:
        raise DataError(f"{where}: field {missing[0]!r} is missing")
    return cls(**{name: _frozen(value) for name, value in data.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _refuse_doubles(requests: tuple[ArrivingRequest, ...]) -> None:
    seen: set[str] = set()
    for index, request in enumerate(requests):
        where, continues = f"requests[{index}]", request.continues
        if request.id in seen:
            raise DataError(f"{where}: the id {request.id!r} is taken by an earlier request")
        if continues is not None and continues.id not in seen:
            raise DataError(f"{where}: continues {continues.id!r}, which is no earlier request")
        seen.add(request.id)
