"""A run that was killed: what its folder tells without the description of its end."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from serq.ir import nodes
from serq.results.run_folder.part_files import PartFiles, PartFormat
from serq.runtime.records import Records, Series
from serq.runtime.request_records import EngineRow, Option, StepTable
from serq.runtime.serving.options import resolve

UNFINISHED: Final = "the run did not come to its end; this is what it had written"


def unfinished(folder: Path, part_format: PartFormat, program: nodes.Program) -> Records:
    """What is known of a run that was killed: how far it got, what it observed and which engines it had."""
    warmup = program.run.warmup
    options = _engine_options(program)
    end = 0.0
    names: dict[str, None] = {}
    engines: dict[tuple[str, int], list[int]] = {}
    for part in PartFiles(folder, "observations", part_format).read(("observation", "time")):
        end = max(end, float(part["time"].max()))
        names.update(dict.fromkeys(part["observation"]))
    for part in PartFiles(folder, "steps", part_format).read(
        ("stage", "member", "end", "tokens", "preempted")
    ):
        end = max(end, float(part["end"].max()))
        for key in dict.fromkeys(zip(part["stage"], part["member"], strict=True)):
            mine = part[(part["stage"] == key[0]) & (part["member"] == key[1])]
            counted = mine[mine["end"] >= warmup]
            sums = engines.setdefault((str(key[0]), int(key[1])), [0, 0, 0])
            sums[0] += len(counted)
            sums[1] += int(counted["tokens"].sum())
            sums[2] += int(counted["preempted"].sum())
    for part in PartFiles(folder, "requests", part_format).read(("stage", "member")):
        for name, member in dict.fromkeys(zip(part["stage"], part["member"], strict=True)):
            engines.setdefault((str(name), int(member)), [0, 0, 0])
    return Records(
        horizon=program.run.horizon or nan,
        end=end,
        warmup=warmup,
        seed=program.run.seed,
        events=0,
        arrivals=0,
        ended=0,
        turns=0,
        mean_live=nan,
        series={name: Series(name) for name in names},
        engines=[
            EngineRow(name, member, options[name], steps, tokens, preemptions, nan, nan, StepTable())
            for (name, member), (steps, tokens, preemptions) in engines.items()
        ],
        stopped=UNFINISHED,
    )


def _engine_options(program: nodes.Program) -> dict[str, tuple[Option, ...]]:
    """The options of every `vllm` stage as a run resolves them, less blocks that an executor computes."""
    return {
        stage.name: _options(stage.name, stage.kind)
        for stage in program.stages
        if isinstance(stage.kind, nodes.Vllm)
    }


def _options(name: str, declared: nodes.Vllm) -> tuple[Option, ...]:
    if declared.num_gpu_blocks is not None:
        return resolve(name, declared).options
    options = resolve(name, replace(declared, num_gpu_blocks=_ANY_BLOCKS)).options
    return tuple(option for option in options if option[0] != "num_gpu_blocks")


_ANY_BLOCKS: Final = 2
