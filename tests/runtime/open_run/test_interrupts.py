"""The interrupt key stops a run ahead of the clock: nothing but one loop of an engine goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

import pytest

from serq import api
from serq.errors import InterruptedRunError
from serq.runtime.open_run.attempt import Attempt
from serq.runtime.simulation import simulate

REQUESTS, CHUNKS = 400, 6_250
PROGRAM = """
stage think : delay;
stage npu : vllm {
  num_gpu_blocks 7000; max_model_len 100010; max_num_batched_tokens 16; max_num_seqs 1;
  enable_prefix_caching false; async_scheduling false; cost 1;
}
workload { arrive batch(REQUESTS); }
session { request r on npu (TOKENS, 1); PAUSE observe t = ttft(r); }
run { horizon 1e9; }
"""
"""Two and a half million steps, all after the only arrivals: seconds also where the loop is compiled."""


def _interrupt(_: int, frame: FrameType | None) -> None:
    """As Ctrl-C, but not where hypothesis is told of collected garbage: Python drops what is raised there."""
    if frame is not None and str(frame.f_globals.get("__name__")).startswith("hypothesis"):
        signal.setitimer(signal.ITIMER_PROF, 0.01)
        return
    raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
@pytest.mark.parametrize("pause", ["", "run think (0.37);"])
def test_a_signal_comes_through_between_two_steps(monkeypatch: pytest.MonkeyPatch, pause: str) -> None:
    """It comes 0.3 s of CPU time after the loop has begun."""
    text = PROGRAM.replace("REQUESTS", str(REQUESTS)).replace("TOKENS", str(CHUNKS * 16))
    program = api.compile(source=text.replace("PAUSE", pause)).ir
    run = Attempt.run

    def armed(attempt: Attempt, horizon: float, report: Callable[[], None]) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.3)
        run(attempt, horizon, report)

    monkeypatch.setattr(Attempt, "run", armed)
    before = signal.signal(signal.SIGPROF, _interrupt)
    try:
        with pytest.raises(InterruptedRunError) as raised:
            simulate(program)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    records = raised.value.records
    assert records is not None and records.stopped == "interrupted"
    assert records.clock_reason is None
    assert 0.0 < records.engines[0].table.end[-1] <= records.end <= records.engines[0].table.end[-1] + 1.0
    assert 0 < records.engines[0].steps < REQUESTS * CHUNKS
