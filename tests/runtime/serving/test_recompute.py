"""`scheduler recompute` in a program: offload, else give the request back for the gateway to start elsewhere.

Two prompts of 64 tokens are computed in one step until 10; each is fetched in 5 s. From 15 on the decoder
gives both a token every 10 s: step k ends at 15 + 10 k and computes token 63 + k. It has 10 blocks of 16, so
both can have five of them. Step 18 computes token 81 of both: formed at 185, it has no sixth block, and the
request that came last, with 17 outputs and 80 computed tokens, gives way (V-038).
"""

from __future__ import annotations

from typing import Any

import pytest

import serq
from serq.errors import RunError
from serq.runtime.records import ConnectorRow, Records
from serq.runtime.serving.engine_connector import EngineConnector
from serq.runtime.simulation import Simulation
from tests.runtime.programs import records

OPTIONS = "block_size 16; max_model_len 1000; enable_prefix_caching false; cost 10;"
ASK = "request p on one (64, 1); request d on two (64, 20) from p via link;"
READS = """
    observe recomputed = recomputed(d); observe outputs = generated(d); observe preempted = preempted(d);
    observe end = now;"""


def text(
    session: str,
    *,
    link: str = "",
    two: str = "async_scheduling false;",
    scheduler: str = "recompute;",
    horizon: float = 1000,
) -> str:
    return f"""
        def blocks(usage, all) = floor(all * usage + 0.5);
        stage wire : delay; stage clients : delay;
        connector link : transfer {{ over wire; work 5; {link} }}
        stage one : vllm {{ {OPTIONS} num_gpu_blocks 100; kv_connector link; kv_role kv_producer; }}
        stage two : vllm {{ {OPTIONS} num_gpu_blocks 11; kv_connector link; kv_role kv_consumer;
                            scheduler {scheduler} {two} }}
        stage spare : vllm {{ {OPTIONS} num_gpu_blocks 100; async_scheduling false; }}
        workload {{ arrive batch(2); }}
        session {{ {session} }}
        run {{ horizon {horizon}; }}"""


def observed(session: str, **options: Any) -> dict[str, list[float]]:
    return {name: series.values for name, series in records(text(session, **options)).series.items()}


def test_without_room_the_last_request_is_given_back() -> None:
    """Its end is told with the step's, at 195; the other goes on to its twentieth token at 215."""
    assert observed(ASK + READS) == {
        "recomputed": [1, 0], "outputs": [17, 20], "preempted": [0, 0], "end": [195, 215],
    }  # fmt: skip


def test_the_gateway_starts_it_elsewhere() -> None:
    """64 prompt tokens and 17 outputs are computed again in one step, which gives the eighteenth output."""
    session = f"""{ASK}
        observe blocks = blocks(kv_usage(two), 10);
        branch (recomputed(d)) {{
            request r on spare (0, 20 - generated(d)) follows d;
            observe prompt = prompt_tokens(r); observe first = first_token(r); observe end = now;
            observe outputs = generated(d) + generated(r);
        }}"""
    assert observed(session) == {
        "blocks": [6, 0], "prompt": [81], "first": [205], "end": [225], "outputs": [20],
    }  # fmt: skip


def test_the_gateway_asks_a_new_pair_as_the_reference_proxy_does() -> None:
    """V-044: prompt and outputs are prefilled again, until 205, and fetched by another decoder, until 210."""
    session = f"""{ASK}
        branch (recomputed(d)) {{
            set done = generated(d);
            request p on one (0, 1) follows d;
            request d on three (64 + done, 20 - done) from p via link;
            observe prompt = prompt_tokens(d); observe ready = kv_ready(d); observe end = now;
            observe outputs = done + generated(d); observe held = kv_usage(one);
        }}"""
    three = f"{OPTIONS} num_gpu_blocks 99; kv_connector link; kv_role kv_consumer;"
    program = text(session).replace("stage spare", f"stage three : vllm {{ {three} }} stage spare")
    found = {name: series.values for name, series in records(program).series.items()}
    assert found == {"prompt": [81], "ready": [210], "end": [240], "outputs": [20], "held": [0]}


def test_what_a_shortage_gives_back_is_free_at_once() -> None:
    """At 190 the other request has six blocks, and nothing is held of the one that was given back."""
    session = f"branch (serial == 0) {{ {ASK} end; }} {ASK}"
    probe = session.replace("branch", "branch (serial == 2) { run clients (190);"
        " observe held = blocks(kv_usage(two), 10); end; } branch", 1)  # fmt: skip
    program = text(probe).replace("batch(2)", "batch(3)")
    assert records(program).series["held"].values == [6]


def test_with_room_it_is_offloaded_and_comes_back() -> None:
    """Its five blocks fit. Two requests of six do not, so it comes back when the other has ended, at 215:
    loaded until 220, it computes token 81 in a step of 10 s, and three outputs are left.
    """
    assert observed(ASK + READS, link="offload_blocks 5;") == {
        "recomputed": [0, 0], "outputs": [20, 20], "preempted": [0, 1], "end": [215, 250],
    }  # fmt: skip


def test_one_block_less_refuses_it() -> None:
    assert observed(ASK + READS, link="offload_blocks 4;")["recomputed"] == [1, 0]


@pytest.mark.parametrize(("blocks", "offloads", "refused"), [(4, 0, 1), (5, 1, 0)])
def test_the_report_counts_them(blocks: int, offloads: int, refused: int) -> None:
    """Two prompts of 64 tokens are fetched in 5 s each; what is offloaded moves beside that."""
    (row,) = records(text(ASK, link=f"offload_blocks {blocks};")).connectors
    assert row == ConnectorRow("link", 2, 0, 64.0, 5.0, offloads, refused)


def test_room_is_given_back() -> None:
    """Two rounds, one after the other: in both the five blocks are there again."""
    found = observed(ASK + READS + ASK + READS, link="offload_blocks 5;")
    assert sum(found["preempted"]) == 2 and found["recomputed"] == [0, 0, 0, 0]


def test_host_memory_is_free_when_the_request_is_back() -> None:
    """Held from the preemption at 185 to the end of the load at 220, and no longer (V-045)."""
    free = []
    for horizon in (184, 186, 219, 221):
        program = serq.compile(source=text(ASK, link="offload_blocks 5;", horizon=horizon)).ir
        run = Simulation(program, seed=1, horizon=horizon, warmup=0.0, arrivals=None, trace=None)
        run.run()
        connector = run.deployment.serving.engines[1].scheduler.connector
        assert isinstance(connector, EngineConnector)
        free.append(connector.offload.num_free_blocks)
    assert free == [5, 0, 0, 5]


def test_a_client_may_give_up_an_offloaded_request() -> None:
    """At 200 both wait for nothing more: the second is in host memory, and its room is given back."""
    session = f"""{ASK.replace(";", " abort after (190);", 2).replace(" abort after (190);", ";", 1)}
        run clients (20); observe held = blocks(kv_usage(two), 10); {ASK} {READS}"""
    found = observed(session, link="offload_blocks 5;")
    assert found["held"] == [0, 0]
    assert found["outputs"] == [20, 20] and found["recomputed"] == [0, 0]


def test_pipelined_steps_free_nothing_at_once() -> None:
    """With a step in flight freed blocks come back with its output: everybody is given back (V-047).

    Step 18 is formed at 175, while step 17 runs: 16 outputs are known then, and the 17th counts no more.
    """
    found = observed(ASK + READS, two="")
    assert found["recomputed"] == [1, 1]
    assert found["outputs"] == [16, 16]


def dies(**options: Any) -> RunError:
    with pytest.raises(RunError) as caught:
        records(text(ASK + READS, **options))
    return caught.value


def test_an_offload_with_a_step_in_flight_kills_the_engine_as_upstream_does() -> None:
    """V-048. At 175 the second is offloaded, which frees nothing yet, so the first is given back, too: it has
    16 outputs. At 185 the 17th of the second comes back, and the engine dies of it; the records are kept.
    """
    error = dies(link="offload_blocks 5;", two="")
    assert error.time == 185
    assert error.code == "upstream-defect" and error.exit_code == 1
    assert "`two[0]`" in error.message and "V-048" in error.message
    kept = error.records
    assert isinstance(kept, Records) and list(kept.requests.generated)[2:] == [16, 17]


def test_without_the_defect_the_engine_lives() -> None:
    """Step 18, formed at 175 behind step 17, has nobody left: one is offloaded, which frees nothing yet, the
    other given back with 16 outputs. The seventeenth token of the first is there at 185. Its 80 computed
    tokens are stored with step 18, from 185 to 190, and loaded until 195; three steps give the last outputs.
    """
    found = observed(ASK + READS, link="offload_blocks 5;", two="", scheduler="recompute { fixed true; }")
    assert found == {"recomputed": [1, 0], "outputs": [16, 20], "preempted": [0, 1], "end": [185, 225]}


def test_a_request_too_large_for_its_engine() -> None:
    """Refused, it is given back; offloaded, it could never come back and waits for ever (V-049)."""
    session = "branch (serial == 1) { end; } request p on one (64, 1);"
    session += f"request d on two (64, 200) from p via link; {READS}"
    found = observed(session, horizon=5000)
    assert found["recomputed"] == [1] and found["outputs"] == [97]
    with pytest.raises(RunError) as caught:
        records(text(session, link="offload_blocks 100;", horizon=5000))
    assert caught.value.code == "stall"
