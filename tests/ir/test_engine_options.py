"""The table of engine options, the page made of it, and what it says against the IR and the engine."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from serq.ir.engine_options import (
    ENGINE_OPTIONS,
    GROUP_OPTIONS,
    LAYOUT_OPTIONS,
    OPTION_FAMILIES,
    SCHEDULER_OPTIONS,
    SPECULATIVE_OPTIONS,
    WAITING_OPTIONS,
)
from serq.ir.serving import KVCacheGroup, Layout, Speculative, Vllm
from serq.ir.vllm_flags import IGNORED, NOT_MODELLED
from serq.runtime.ascend.batch_job_aware import BatchJobAwareConfig
from serq.runtime.ascend.chunk_predictor import ProfilingChunkConfig
from serq.runtime.ascend.dyntra_group import DyntraLBConfig
from serq.runtime.ascend.short_request_first import ShortRequestFirstConfig
from serq.runtime.vllm.config import EngineConfig
from tests.ir.options_page import PAGE, page


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_every_field_of_the_ir_has_an_option() -> None:
    spelled_otherwise = {"groups": "group"}
    assert {spelled_otherwise.get(f, f) for f in Vllm.__struct_fields__} - {"scheduler_options"} == {
        *ENGINE_OPTIONS,
        *OPTION_FAMILIES,
    }
    assert set(Layout.__struct_fields__) - {"kind"} == set(LAYOUT_OPTIONS["vllm_ascend"])
    assert set(KVCacheGroup.__struct_fields__) - {"kind"} == set(GROUP_OPTIONS)
    assert set(Speculative.__struct_fields__) - {"method"} == set(SPECULATIVE_OPTIONS)


def test_defaults_are_those_of_the_engine() -> None:
    engine = {f.name: f.default for f in msgspec.structs.fields(EngineConfig)}
    resolved = {"async_scheduling", "num_gpu_blocks"}
    for name, option in ENGINE_OPTIONS.items():
        if name in engine and not option.required and name not in resolved:
            assert option.default == engine[name], name
    for kind, config in (
        ("short_request_first", ShortRequestFirstConfig),
        ("batch_job_aware", BatchJobAwareConfig),
    ):
        upstream = {f.name: f.default for f in fields(config)}
        for name, option in WAITING_OPTIONS[kind].items():
            if name != "fixed":
                assert option.default == upstream[name], name


def test_defaults_of_schedulers_are_theirs() -> None:
    for kind, config in (("profiling_chunk", ProfilingChunkConfig), ("dyntra_lb", DyntraLBConfig)):
        upstream = {f.name: f.default for f in fields(config)}
        for name, option in SCHEDULER_OPTIONS[kind].items():
            if name not in {"need_timing", "recompute_scheduler_enable"}:
                assert option.default == upstream[name], name


def test_an_option_is_modelled_ignored_or_refused_and_only_one_of_these() -> None:
    flags = {option.flag for option in ENGINE_OPTIONS.values() if option.flag}
    assert not flags & IGNORED.keys()
    assert not flags & NOT_MODELLED.keys()
    assert not IGNORED.keys() & NOT_MODELLED.keys()


def test_limits() -> None:
    """vLLM: 0 <= watermark < 1, max_num_seqs >= 1."""
    watermark, seqs = ENGINE_OPTIONS["watermark"], ENGINE_OPTIONS["max_num_seqs"]
    assert watermark.fault(0) is None and watermark.fault(0.999) is None
    assert watermark.fault(1) == "at least 0 and less than 1"
    assert watermark.fault(-0.1) == "at least 0 and less than 1"
    assert seqs.fault(1) is None
    assert seqs.fault(0) == "at least 1"
