"""The scenario generator: the same by seed, valid for the real scheduler's checks, and wide."""

import json
from collections import Counter
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import Any

import pytest

from serq.errors import DataError, UsageError
from serq.oracle.capture import Scenario
from serq.oracle.capture.scenario import Engine, Group
from serq.oracle.generate import generate
from serq.oracle.generate.command import main, seed_range, write_scenarios
from serq.oracle.generate.draw import Draw
from serq.oracle.generate.themes import THEMES

SEEDS = range(400)
USES_EAGLE = {"eagle", "eagle3", "mtp", "dflash", "dspark"}


@pytest.fixture(scope="module")
def raw() -> list[dict[str, Any]]:
    return [generate(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def scenarios(raw: list[dict[str, Any]]) -> list[Scenario]:
    return [Scenario.from_json(json.loads(json.dumps(one))) for one in raw]


def test_a_seed_gives_one_scenario() -> None:
    assert generate(7) == generate(7)
    assert generate(7) != generate(8)


def test_a_draw_is_the_same_on_every_platform() -> None:
    """Numbers of the Mersenne twister seeded by text, which Python promises not to change."""
    draw = Draw("a")
    assert [draw.between(0, 9) for _ in range(8)] == [2, 0, 5, 6, 1, 5, 5, 9]


def test_settings_pass_the_real_configuration_checks(scenarios: list[Scenario]) -> None:
    """S-003, and S-002 for the drafter's own slots."""
    for scenario in scenarios:
        engine, spec = scenario.engine, scenario.spec
        assert engine.max_num_batched_tokens >= engine.max_num_seqs
        assert engine.enable_chunked_prefill or engine.max_num_batched_tokens >= engine.max_model_len
        assert engine.long_prefill_token_threshold <= engine.max_model_len
        slots = engine.max_num_seqs if spec is not None and spec.method == "draft_model" else 0
        scheduled = engine.max_num_scheduled_tokens
        budget = engine.max_num_batched_tokens - slots
        assert budget > 0
        assert scheduled is None or 0 < scheduled <= budget


def test_groups_are_ones_that_the_real_coordinator_accepts(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        engine = scenario.engine
        if engine.enable_prefix_caching:
            check_cached_groups(engine, uses_eagle(scenario))
        else:
            assert all(group.mode == "none" for group in engine.groups)
            assert engine.retention_interval is None


def check_cached_groups(engine: Engine, eagle: bool) -> None:
    sizes = [group.resolved_block_size(engine.max_model_len) for group in engine.groups]
    specs = {spec_of(group, engine) for group in engine.groups}
    assert len(engine.groups) == 1 or len(specs) > 1
    flagged = [group for group in engine.groups if group.eagle]
    drafting = flagged or (engine.groups if eagle else ())
    assert all(group.kind != "chunked_local" for group in drafting)
    for group, size in zip(engine.groups, sizes, strict=True):
        assert group.kind != "chunked_local" or size == lcm(*sizes)
        assert group.kind != "mamba" or (size == min(sizes) and group.mode != "none")  # S-110
    if engine.prefix_match_unit is not None:
        assert all(size % engine.prefix_match_unit == 0 for size in sizes)
    if engine.retention_interval is not None:
        assert engine.retention_interval % lcm(*sizes) == 0
        assert any(group.kind in ("sliding", "mamba") for group in engine.groups)


def spec_of(group: Group, engine: Engine) -> tuple[object, ...]:
    return (
        group.kind,
        group.resolved_block_size(engine.max_model_len),
        group.window,
        group.chunk,
        group.mode,
    )


def uses_eagle(scenario: Scenario) -> bool:
    return scenario.spec is not None and scenario.spec.method in USES_EAGLE


def test_requests_are_ones_that_the_real_front_end_accepts(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        lengths = {request.id: (request.prompt, request.max_tokens) for request in scenario.requests}
        times = [request.t for request in scenario.requests]
        assert times == sorted(times)
        for request in scenario.requests:
            assert 1 <= request.prompt < scenario.engine.max_model_len
            assert request.max_tokens >= 1
            assert request.min_tokens <= request.max_tokens
            assert request.prefix_len <= request.prompt
            if request.continues is not None:
                assert request.continues.len <= min(request.prompt, sum(lengths[request.continues.id]))
        known = set(lengths)
        assert all(event.id in known for event in scenario.events if event.op == "abort")


def test_no_two_aborts_can_fall_into_one_step(scenarios: list[Scenario]) -> None:
    """Their order within a step is unspecified (S-140)."""
    for scenario in scenarios:
        engine = scenario.engine
        longest = scenario.cost.of(engine.max_num_batched_tokens, engine.max_num_seqs)
        arrival = {request.id: request.t for request in scenario.requests}
        assert all(e.t >= arrival[e.id] for e in scenario.events if e.op == "abort" and e.id is not None)
        aborts = sorted(event.t for event in scenario.events if event.op == "abort")
        assert all(later - earlier > longest for earlier, later in pairwise(aborts))


def test_every_field_of_the_format_is_used(raw: list[dict[str, Any]]) -> None:
    used: Counter[str] = Counter()
    for scenario in raw:
        used.update(f"engine.{name}" for name in scenario["engine"])
        used.update(f"group.{group['kind']}" for group in scenario["engine"]["groups"])
        used.update(f"group.{name}" for group in scenario["engine"]["groups"] for name in group)
        for part in ("spec", "kv_connector", "cost"):
            used.update(f"{part}.{name}" for name in scenario.get(part, ()))
        used.update(f"event.{event['op']}" for event in scenario.get("events", ()))
        for request in scenario["requests"]:
            used.update(f"request.{name}" for name in request)
            used.update(f"kv.{name}" for name in request.get("kv", ()))
            used.update(f"stop.{request['stop']['kind']}" for _ in range("stop" in request))
    expected = {f"engine.{name}" for name in Engine.__dataclass_fields__}
    expected |= {f"group.{name}" for name in Group.__dataclass_fields__}
    expected |= {f"group.{kind}" for kind in ("full", "sliding", "chunked_local", "mamba")}
    expected |= {f"spec.{name}" for name in ("method", "k", "accept", "draft_len", "per_batch_size")}
    expected |= {f"kv_connector.{name}" for name in ("name", "role", "load_failure_policy")}
    expected |= {f"kv.{name}" for name in ("ext", "async", "delay", "undecided", "once", "fail", "send")}
    expected |= {f"event.{op}" for op in ("abort", "reset_prefix_cache", "pause")}
    expected |= {f"stop.{kind}" for kind in ("eos", "token", "repeat")}
    optional = ("priority", "prefix_group", "continues", "stop", "min_tokens", "skip_cache", "kv", "accept")
    expected |= {f"request.{name}" for name in optional}
    assert expected - set(used) == set()


def test_every_theme_is_drawn(raw: list[dict[str, Any]]) -> None:
    drawn = {scenario["name"].partition("_")[2] for scenario in raw}
    assert drawn == {theme.name for theme in THEMES}


def test_a_theme_can_be_asked_for() -> None:
    names = [generate(seed, "transfers")["name"] for seed in range(3)]
    assert names == ["g000000_transfers", "g000001_transfers", "g000002_transfers"]
    assert all("kv_connector" in generate(seed, "transfers") for seed in range(10))


def test_many_requests_are_recorded_as_a_digest() -> None:
    assert generate(1)["trace"] == {"blocks": True, "queues": True}
    large = generate(1, num_requests=201)
    assert len(large["requests"]) == 201
    assert large["trace"] == {"level": "digest"}


def test_a_range_of_seeds_becomes_files(tmp_path: Path) -> None:
    write_scenarios(seed_range("3:6"), tmp_path)
    written = [json.loads(path.read_text()) for path in sorted(tmp_path.iterdir())]
    assert written == [generate(3), generate(4), generate(5)]


def test_one_number_is_one_seed() -> None:
    assert list(seed_range("12")) == [12]


def test_a_wrong_range_and_a_missing_folder_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="not 'x:3'"):
        seed_range("x:3")
    with pytest.raises(DataError, match="no such folder"):
        write_scenarios(range(1), tmp_path / "absent")
    assert main(["--seeds", "1", "-o", str(tmp_path / "absent")]) == 1
    assert "no such folder" in capsys.readouterr().err
