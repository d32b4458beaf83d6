"""A recorded scenario of the real vLLM as a serq program: one time unit is one microsecond.

Sessions arrive by a trace at the scenario's times; each finds its own request by its serial number. A request
that continues another one whole is sent by the same session, after a delay. What the language does not have
(pauses, resets) is named by :func:`obstacle`; of a connector's script the program has the declaration only.
"""

from __future__ import annotations

from array import array
from itertools import count
from typing import Any

from serq.ir import nodes
from serq.ir.expressions import Binary, Expr, Number, Variable
from serq.ir.serving import KVCacheGroup, Prefix, Request, Speculative, Vllm, Waiting
from serq.oracle.scenario import Group, RequestLine, Scenario
from serq.runtime.trace import Trace

ENGINE = "engine"
_SAME = (
    *("max_num_batched_tokens", "max_num_scheduled_tokens", "max_num_seqs", "max_model_len"),
    *("enable_chunked_prefill", "long_prefill_token_threshold", "async_scheduling", "watermark"),
    *("enable_prefix_caching", "num_gpu_blocks", "prefix_match_unit", "retention_interval"),
    "prefill_schedule_interval",
)


def obstacle(scenario: Scenario) -> str | None:
    """Why a scenario cannot be written as a program; None: it can."""
    lines = scenario.requests
    if any(event.op != "abort" for event in scenario.events):
        return "pause or reset"
    if any(line.continues is not None and not _continues_whole(line, lines) for line in lines):
        return "continues a part"
    if any(line.stop is not None and line.stop.kind == "repeat" for line in lines):
        return "repeated token"
    if any(line.prompt >= scenario.engine.max_model_len for line in lines):
        return "rejected by upstream's input processor, which the recorder does not run"
    if scenario.spec is not None and scenario.spec.draft_len is not None:
        return "a script of draft lengths"
    if scenario.engine.policy == "priority" and not _ids_in_order(lines):
        return "ties by upstream's request ids"
    return None


def _continues_whole(line: RequestLine, lines: tuple[RequestLine, ...]) -> bool:
    """Whether a request continues all of one that ends by length and that nobody else continues."""
    assert line.continues is not None
    before = next(other for other in lines if other.id == line.continues.id)
    followers = [other for other in lines if other.continues and other.continues.id == before.id]
    whole = line.continues.len == before.prompt + before.max_tokens < line.prompt
    return whole and before.stop is None and len(followers) == 1


def _ids_in_order(lines: tuple[RequestLine, ...]) -> bool:
    """Whether ids of requests with equal priority and time compare as they are listed."""
    last: dict[tuple[int, int], str] = {}
    for line in lines:
        key = (line.priority, line.t)
        if key in last and not last[key] < line.id:
            return False
        last[key] = line.id
    return True


def in_order(scenario: Scenario) -> list[RequestLine]:
    """The requests in the order of their arrival."""
    return sorted(scenario.requests, key=lambda line: line.t)


def trace_of(scenario: Scenario) -> Trace:
    """A trace with one session a request, at the scenario's times."""
    lines = [line for line in in_order(scenario) if line.continues is None]
    trace = Trace(times=array("d", (line.t for line in lines)))
    for line in lines:
        trace.add_turn(line.prompt, line.max_tokens)
        trace.close_session()
    return trace


def program(scenario: Scenario, horizon: float) -> nodes.Program:
    """The scenario as a program; times count from the first arrival."""
    numbers = count()
    aborts = {event.id: event.t for event in reversed(scenario.events)}
    session: list[nodes.AnyStatement] = []
    first = in_order(scenario)[0].t
    followers = {line.continues.id: line for line in scenario.requests if line.continues is not None}
    beginners = [line for line in in_order(scenario) if line.continues is None]
    for serial, beginner in enumerate(beginners):
        mine = Binary("==", nodes.Attribute("serial"), Number(float(serial)))
        branch = next(numbers)
        then: list[nodes.AnyStatement] = []
        line: RequestLine | None = beginner
        while line is not None:
            if line.continues is not None:
                pause = Binary("-", Number(float(line.t - first)), Variable("now"))
                then.append(nodes.Run(id=next(numbers), stages=(nodes.StageRef("clients"),), work=pause))
            then.append(_request(next(numbers), line, aborts.get(line.id), scenario))
            line = followers.get(line.id)
        then.append(nodes.End(id=next(numbers)))
        session.append(nodes.Branch(id=branch, condition=mine, then=tuple(then)))
    return nodes.Program(
        version=nodes.IR_VERSION,
        stages=(
            nodes.Stage(ENGINE, _engine(scenario)),
            nodes.Stage("clients", nodes.Delay()),
            nodes.Stage("wire", nodes.Delay()),
        ),
        connectors=() if scenario.kv_connector is None else (_connector(),),
        workload=nodes.Workload(arrive=nodes.Traced(1.0), trace="scenario"),
        session=tuple(session),
        run=nodes.RunSettings(horizon=horizon),
    )


def _connector() -> nodes.Connector:
    return nodes.Connector("outside", over=nodes.StageRef("wire"), work=Number(1.0))


def _engine(scenario: Scenario) -> Vllm:
    engine, spec, cost = scenario.engine, scenario.spec, scenario.cost
    options: dict[str, Any] = {name: getattr(engine, name) for name in _SAME}
    if scenario.kv_connector is not None:
        options["kv_connector"] = "outside"
        options["kv_role"] = scenario.kv_connector.role
        options["kv_load_failure_policy"] = scenario.kv_connector.load_failure_policy
    return Vllm(
        cost=_cost(cost.base, cost.per_token, cost.per_seq),
        scheduler_reserve_full_isl=engine.reserve_full_isl,
        groups=tuple(_group(group) for group in engine.groups),
        waiting=Waiting("priority" if engine.policy == "priority" else "fcfs"),
        speculative=None
        if spec is None
        else Speculative(spec.method, spec.k, (0.5,) * spec.k, tuple(spec.per_batch_size or ())),
        **options,
    )


def _group(group: Group) -> KVCacheGroup:
    return KVCacheGroup(
        group.kind, group.block_size, group.window, group.chunk, group.mode, group.num_speculative_blocks,
        group.eagle,
    )  # fmt: skip


def _cost(base: int, per_token: int, per_seq: int) -> Expr:
    tokens = Binary("*", Number(float(per_token)), Variable("tokens"))
    rows = Binary("*", Number(float(per_seq)), Variable("scheduled"))
    return Binary("+", Binary("+", Number(float(base)), tokens), rows)


def acceptance_scripts(scenario: Scenario) -> dict[int, tuple[int, ...]]:
    """Place in the order of sending -> accepted drafts of every verifying step, over and over."""
    spec = scenario.spec
    if spec is None:
        return {}
    return {place: line.accept or spec.accept for place, line in enumerate(in_order(scenario))}


def _request(number: int, line: RequestLine, abort: int | None, scenario: Scenario) -> Request:
    stops = line.stop is not None
    length = line.stop.at + 1 if line.stop is not None else line.max_tokens
    if stops and length < line.min_tokens:
        length = line.max_tokens + 1
    return Request(
        id=number,
        handle="r",
        stage=nodes.StageRef(ENGINE),
        prompt_tokens=Number(float(line.prompt - (line.continues.len if line.continues else 0))),
        follows=None if line.continues is None else "r",
        output_tokens=Number(float(length)),
        max_tokens=Number(float(line.max_tokens)) if stops else None,
        min_tokens=Number(float(line.min_tokens)) if stops and line.min_tokens else None,
        priority=Number(float(line.priority)),
        prefix=None
        if line.prefix_group is None
        else Prefix(Number(float(line.prefix_group)), Number(float(line.prefix_len))),
        skip_reading_prefix_cache=Number(1.0) if line.skip_cache else None,
        abort_after=None if abort is None else Number(float(abort - line.t)),
    )
