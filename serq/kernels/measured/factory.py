"""From the options of a `measured` executor to the object that prices steps."""

from __future__ import annotations

import json
from pathlib import Path

from serq.errors import DataError
from serq.kernels.catalogue import unknown
from serq.kernels.catalogue.model_config import shape_of_config
from serq.kernels.catalogue.models import ModelShape, model_named, models
from serq.kernels.measured.capture import CaptureSizes, default_capture_sizes
from serq.kernels.measured.executor import MeasuredExecutor, Parallelism
from serq.kernels.measured.links import Link
from serq.kernels.measured.tables import OperatorTables, read_provenance
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, Origin, PricedStage, Setting
from serq.source import read_text


def build(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
    """A vLLM step from operator tables.

    Raises DataError for tables that cannot be read or do not fit, RunError for options that cannot be met.
    """
    folder = stage.folder / options.text("tables")
    provenance = read_provenance(folder)
    model, model_source = _model(options, stage.folder, provenance.model)
    ranks = options.count("data_parallel_size") if options.written("data_parallel_size") else None
    parallelism = Parallelism(
        options.count("tensor_parallel_size"),
        ranks or stage.data_parallel_size,
        options.switch("enable_expert_parallel"),
    )
    link = _link(options, parallelism)
    parallelism.check(model, link)
    tables = OperatorTables.read(folder, model, parallelism.tensor, expert_parallel=parallelism.expert)
    sizes = (
        ()
        if options.switch("enforce_eager")
        else default_capture_sizes(stage.max_num_seqs or 256, stage.max_num_batched_tokens or 2048)
    )
    where = f"{provenance.gpu or 'device not stated'}, vLLM {provenance.engine_version or 'not stated'}"
    settings = [
        Setting("tables", str(folder), where),
        Setting("model", model.name, model_source),
        Setting("skew", "none" if tables.skew is None else "fitted", "meta.yaml"),
        Setting("graphs", f"{len(sizes)} sizes to {max(sizes)}" if sizes else "none", "default of vLLM"),
    ]
    if link is not None:
        settings.append(Setting("link_bandwidth", f"{link.bandwidth:g}", "the program"))
        settings.append(Setting("link_latency", f"{link.latency:g}", options.source("link_latency")))
    executor = MeasuredExecutor(model, tables, CaptureSizes(sizes), parallelism, link)
    origin = Origin(options.text("tables"), provenance.gpu, provenance.measured_at)
    return BuiltExecutor(executor, tuple(settings), origins=(origin,))


def _model(options: ExecutorOptions, folder: Path, measured: str) -> tuple[ModelShape, str]:
    """The shape of the model and where it comes from: a file, the catalogue, or what the tables name."""
    if not options.written("model"):
        shape = model_named(measured) if measured else None
        if shape is None:
            raise options.fault(f"the tables are of {measured or 'no model that they name'}", "add `model`")
        return shape, "the tables"
    name = options.text("model")
    if name.endswith(".json"):
        path = folder / name
        try:
            config = json.loads(read_text(path, "model configuration"))
            if not isinstance(config, dict):
                raise ValueError("is not a JSON object")
            return shape_of_config(path.stem, config, str(path)), name
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: {error}") from None
    shape = model_named(name)
    if shape is None:
        raise options.fault(f"unknown model `{name}`", unknown("model", name, models()))
    return shape, "the program"


def _link(options: ExecutorOptions, parallelism: Parallelism) -> Link | None:
    """The link that the program gives; an option that prices nothing is a mistake."""
    exchanges = parallelism.tensor > 1 or parallelism.experts_over > 1
    gathers = parallelism.experts_over > 1 and parallelism.data > 1
    needed = {"link_bandwidth": exchanges, "link_latency": exchanges, "expert_bytes": gathers}
    for name, is_needed in needed.items():
        if options.written(name) and not is_needed:
            raise options.fault(f"`{name}` is given, and the engine exchanges nothing like it")
    bandwidth = options.optional_number("link_bandwidth")
    if bandwidth is None:
        return None
    return Link(bandwidth, options.number("link_latency"), options.number("expert_bytes"))
