"""From what a run states and a caller gives to engines for a replay: every setting with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serq.errors import DataError, UsageError
from serq.kernels.catalogue.model_config import shape_of_config
from serq.kernels.catalogue.models import ModelShape, model_named
from serq.kernels.measured.capture import CaptureSizes, default_capture_sizes
from serq.kernels.measured.executor import MeasuredExecutor, Parallelism
from serq.kernels.measured.links import Link
from serq.kernels.measured.tables import OperatorTables, read_provenance
from serq.kernels.registry import Setting
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.kv_cache_spec import FullAttentionSpec, KVCacheGroup
from serq.validation.fields import read_object
from serq.validation.measured_run import MeasuredRun
from serq.validation.memory import kv_bytes_per_token, weight_bytes
from serq.validation.prefixes import SharedPrefix, known_prefixes, read_prefixes

_NOT_PRICED = ("quantization", "speculative_config", "kv_transfer_config")
_DEFAULT = "default of vLLM"
_PUBLISHED_EXPERT_BYTES = 0.5
"""Share of their bytes that LLMServingSim charges the collectives of experts; chosen to match its runs."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Engines ready for a replay. ``settings`` say what they rest on, ``notes`` what a reader should know."""

    executor: MeasuredExecutor
    config: EngineConfig
    prefixes: tuple[SharedPrefix, ...]
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]


def set_up(run: MeasuredRun, tables: Path, given: Mapping[str, Any]) -> Setup:
    """Resolve every setting: what the caller gives comes first, then what the run states, then a default.

    ``given`` has options under vLLM's names, and `model_config`, `prefixes`, `link_bandwidth`,
    `link_latency`, `expert_bytes`; None: not given. Raises DataError for files and settings that cannot be
    used, UsageError for given options that mean nothing for this run.
    """
    return _SetUp(run, given).build(tables)


class _SetUp:
    def __init__(self, run: MeasuredRun, given: Mapping[str, Any]) -> None:
        self._run = run
        self._given = {name: value for name, value in given.items() if value is not None}
        self._settings: list[Setting] = []
        self._notes = list(run.notes)
        if run.from_client:
            self._notes.append("the client's times hold HTTP and tokenizing, the prediction does not")
        if run.failed:
            self._notes.append(f"{run.failed} requests failed; they are neither replayed nor compared")

    def build(self, tables_folder: Path) -> Setup:
        model = self._model()
        self._refuse_what_is_not_priced()
        self._compare_with_tables(tables_folder, model)
        parallelism = Parallelism(
            self._count("tensor_parallel_size", 1, _DEFAULT),
            self._count("data_parallel_size", 1, _DEFAULT),
            self._switch("enable_expert_parallel", False, _DEFAULT),
        )
        link = self._link(parallelism)
        parallelism.check(model, link)
        tables = OperatorTables.read(
            tables_folder, model, parallelism.tensor, expert_parallel=parallelism.expert
        )
        config = self._config(model, parallelism)
        executor = MeasuredExecutor(model, tables, self._capture(config), parallelism, link)
        if "prefixes" in self._given and not config.enable_prefix_caching:
            raise UsageError("prefixes were given, and the engine of this run caches none")
        prefixes = self._prefixes() if config.enable_prefix_caching else ()
        return Setup(executor, config, prefixes, tuple(self._settings), tuple(self._notes))

    # ---- one setting ----------------------------------------------------------------------------------

    def _find(self, name: str, default: Any, source: str) -> Any:
        """The value of a setting; what it is and where it comes from is written down."""
        if name in self._given:
            value, source = self._given[name], "given"
        elif name in self._run.stated:
            stated = self._run.stated[name]
            value, source = stated.value, stated.source
        else:
            value = default
        shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        self._settings.append(Setting(name, shown, source))
        return value

    def _count(self, name: str, default: int, source: str, *, least: int = 1) -> int:
        value = self._find(name, default, source)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DataError(f"{self._run.path}: {name} is {value!r}, not a whole number from {least} on")
        return value

    def _switch(self, name: str, default: bool, source: str) -> bool:
        value = self._find(name, default, source)
        if not isinstance(value, bool):
            raise DataError(f"{self._run.path}: {name} is {value!r}, not true or false")
        return value

    # ---- the model ------------------------------------------------------------------------------------

    def _model(self) -> ModelShape:
        """The shape of the model: from a configuration file, or by its name."""
        name = str(self._find("model", "", "not stated"))
        path = self._given.get("model_config")
        if path is not None:
            try:
                config = read_object(path, "model configuration")
                return shape_of_config(name or str(path), config, str(path))
            except ValueError as error:
                raise DataError(f"{path}: {error}") from None
        if not name:
            raise DataError(f"{self._run.path}: says no model; give its name or its config.json")
        shape = model_named(name)
        if shape is None:
            raise DataError(f"model {name} is not in the catalogue; give its config.json (--model-config)")
        return shape

    def _refuse_what_is_not_priced(self) -> None:
        for name in _NOT_PRICED:
            stated = self._run.stated.get(name)
            if stated is not None:
                raise DataError(f"{self._run.path}: {name} ({stated.source}) is in no operator table")
        pipeline = self._run.stated.get("pipeline_parallel_size")
        if pipeline is not None and pipeline.value != 1:
            raise DataError(f"{self._run.path}: pipeline parallelism is not composed from operator tables")
        for name in ("dtype", "kv_cache_dtype"):
            dtype = self._run.text(name)
            if dtype and dtype not in ("bfloat16", "auto"):
                raise DataError(
                    f"{self._run.path}: {name} {dtype}: the operator tables are those of bfloat16"
                )

    def _compare_with_tables(self, folder: Path, model: ModelShape) -> None:
        """Refuse tables of another architecture; say where model name, device or engine version differ."""
        provenance = read_provenance(folder)
        name = str(self._given.get("model") or self._run.text("model") or model.name)
        measured = model_named(provenance.model) if provenance.model else None
        if measured is not None and not measured.same_architecture(model):
            raise DataError(f"{folder}: tables of {provenance.model}; the run is of {name}")
        for what, there, here in (
            ("model", provenance.model, name),
            ("device", provenance.gpu, self._run.text("device_name")),
            ("engine version", provenance.engine_version, self._run.text("engine_version")),
        ):
            if there and here and there != here:
                self._notes.append(f"{what}: {here} in the run, {there} in the tables")

    # ---- the engine -----------------------------------------------------------------------------------

    def _config(self, model: ModelShape, parallelism: Parallelism) -> EngineConfig:
        longest = max(request.prompt_tokens + request.output_tokens for request in self._run.requests)
        max_num_seqs = self._count("max_num_seqs", 256, _DEFAULT)
        options: dict[str, Any] = {
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": self._count("max_num_batched_tokens", 2048, _DEFAULT),
            "max_model_len": self._count("max_model_len", longest, "longest request"),
            "async_scheduling": self._switch("async_scheduling", True, _DEFAULT),
            "enable_chunked_prefill": self._switch("enable_chunked_prefill", True, _DEFAULT),
            "enable_prefix_caching": self._switch("enable_prefix_caching", True, _DEFAULT),
            "scheduler_reserve_full_isl": self._switch("scheduler_reserve_full_isl", True, _DEFAULT),
            "policy": self._find("policy", "fcfs", _DEFAULT),
            "long_prefill_token_threshold": self._count("long_prefill_token_threshold", 0, _DEFAULT, least=0),
        }
        if options["policy"] not in ("fcfs", "priority"):
            raise DataError(f"{self._run.path}: policy is {options['policy']!r}, not fcfs or priority")
        if options["max_model_len"] < longest:
            limit = options["max_model_len"]
            raise DataError(f"{self._run.path}: a request of {longest} tokens, and max_model_len {limit}")
        block_size = self._count("block_size", 16, _DEFAULT)
        options["num_gpu_blocks"] = self._blocks(model, parallelism, block_size)
        options["groups"] = (KVCacheGroup(FullAttentionSpec(block_size)),)
        try:
            return EngineConfig(**options)
        except ValueError as error:
            raise DataError(f"{self._run.path}: {error}") from None

    def _blocks(self, model: ModelShape, parallelism: Parallelism, block_size: int) -> int:
        """KV blocks of an engine: stated, or what memory leaves, or as many as all requests together need."""
        name = "num_gpu_blocks"
        memory = self._run.stated.get("kv_and_weight_bytes")
        if memory is not None and name not in self._given and name not in self._run.stated:
            block = block_size * kv_bytes_per_token(model, parallelism.tensor)
            left = int((memory.value - weight_bytes(model, parallelism)) // block)
            return self._count(name, left, f"{memory.source}, less the weights")
        if name not in self._given and name not in self._run.stated:
            self._notes.append(
                f"{name} is not stated and taken for enough; where memory was short the run was slower"
            )
        lengths = (request.prompt_tokens + request.output_tokens for request in self._run.requests)
        enough = 2 + sum(length // block_size + 1 for length in lengths)
        return self._count(name, enough, "assumed: memory never short")

    def _capture(self, config: EngineConfig) -> CaptureSizes:
        if self._switch("enforce_eager", False, _DEFAULT):
            return CaptureSizes(())
        default = default_capture_sizes(config.max_num_seqs, config.max_num_batched_tokens)
        stated = self._run.stated.get("cudagraph_capture_sizes")
        sizes = default if stated is None else stated.value
        if not (isinstance(sizes, list | tuple) and all(isinstance(n, int) and n > 0 for n in sizes)):
            raise DataError(f"{self._run.path}: cudagraph_capture_sizes is not a list of token counts")
        source = _DEFAULT if stated is None else stated.source
        shown = f"{len(sizes)} sizes to {max(sizes)}" if sizes else "none"
        self._settings.append(Setting("cudagraph_capture_sizes", shown, source))
        return CaptureSizes(sizes)

    # ---- links and prefixes ---------------------------------------------------------------------------

    def _link(self, parallelism: Parallelism) -> Link | None:
        """The link between devices, None where nothing is exchanged.

        The links of LLMServingSim were chosen by its authors with these runs in view, and it charges the
        collectives of experts with half their bytes; whoever takes its link as published takes that too.
        """
        exchanges = parallelism.tensor > 1 or parallelism.experts_over > 1
        gathers = parallelism.experts_over > 1 and parallelism.data > 1
        for name, needed in {
            "link_bandwidth": exchanges,
            "link_latency": exchanges,
            "expert_bytes": gathers,
        }.items():
            if name in self._given and not needed:
                raise UsageError(
                    f"{name.replace('_', ' ')} was given, and this run exchanges nothing like it"
                )
        known = self._given.keys() | self._run.stated.keys()
        if not exchanges or not {"link_bandwidth", "link_latency"} <= known:
            return None
        bandwidth = self._find("link_bandwidth", None, "")
        latency = self._find("link_latency", None, "")
        published = not {"link_bandwidth", "link_latency"} & self._given.keys()
        share = 1.0
        if gathers and published:
            share = self._find("expert_bytes", _PUBLISHED_EXPERT_BYTES, "as LLMServingSim charges them")
        elif gathers:
            share = self._find("expert_bytes", 1.0, "all of them")
        if published:
            self._notes.append(
                "the link is as published with the run, and was chosen in view of it; no table measures one"
            )
        try:
            return Link(bandwidth, latency, share)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _prefixes(self) -> tuple[SharedPrefix, ...]:
        lengths = [request.prompt_tokens for request in self._run.requests]
        path = self._given.get("prefixes")
        found = None if self._run.failed else known_prefixes(lengths)
        if path is not None:
            prefixes, source = read_prefixes(path, lengths), str(path)
        elif found is not None:
            name, prefixes = found
            source = f"known for the public workload {name}, recognised by its prompt lengths"
        else:
            prefixes, source = (), "not known: only a request's own blocks are found again"
            self._notes.append("which prompts begin alike is not known; sharing would make the run shorter")
        shown = f"{len(prefixes)} requests, {sum(prefix.tokens for prefix in prefixes)} tokens"
        self._settings.append(Setting("shared_prefixes", shown, source))
        return prefixes
