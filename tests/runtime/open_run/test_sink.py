"""Records are taken away while a run is ahead of the clock, and once more if it has to begin anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq import api
from serq.results.run_folder.writer import RunWriter
from serq.runtime.open_run.leaving import ClockReason
from serq.runtime.serving.engines import EngineMode
from serq.runtime.simulation import simulate

TEXT = """
stage npu : vllm {{ num_gpu_blocks 400; max_model_len 200; async_scheduling false; cost 1 + 0.01 * tokens; }}
workload {{ arrive poisson(0.2); }}
session {{
  request r on npu (20 + 3 * floor(~exp(5)), 9) max_tokens (30) min_tokens ({lowest});
  observe ttft = ttft(r);
  {more}
}}
stage think : delay;
run {{ horizon 6000; warmup 500; }}
"""


CONVERSATION = "run think (~exp(3)); request r on npu (9, 7) follows r; observe ttft = ttft(r);"


def stored(text: str, folder: Path, mode: EngineMode) -> tuple[str | None, int, dict[str, str]]:
    """Why the run that went into ``folder`` was on the clock, steps taken meanwhile, its tables as text."""
    program = api.compile(source=text)
    writer = RunWriter.open(folder, program.ir, "csv", rows_a_part=50)
    records = simulate(program.ir, engine=mode, sink=writer)
    taken = records.engines[0].table.handed_over
    writer.finish(records)
    report = api.read_run(folder)
    frames = {name: getattr(report, name).to_csv() for name in ("requests", "steps", "queue")}
    frames["ttft"] = report.observations["ttft"].mean.hex()
    return records.clock_reason, taken, frames


@pytest.mark.parametrize("more", ["", CONVERSATION])
@pytest.mark.parametrize(("lowest", "reason"), [("0", None), ("serial == 700 ? 60 : 0", ClockReason.STOP)])
def test_what_is_taken_away_is_the_same(
    tmp_path: Path, lowest: str, reason: ClockReason | None, more: str
) -> None:
    """Session 700 has an end that the run ahead of the clock does not foresee: parts were written by then."""
    text = TEXT.format(lowest=lowest, more=more)
    clock_reason, taken, frames = stored(text, tmp_path / "ahead", "auto")
    _, _, expected = stored(text, tmp_path / "clock", "planned")
    assert clock_reason == (None if reason is None else reason.value)
    assert taken > 1000
    assert frames == expected


class Counting:
    """A sink that takes nothing."""

    def __init__(self) -> None:
        self.offers = self.again = 0

    def offer(self, live: object) -> None:
        self.offers += 1

    def begin_again(self) -> None:
        self.again += 1


def test_a_run_that_begins_anew_says_so_once() -> None:
    sink = Counting()
    simulate(api.compile(source=TEXT.format(lowest="serial == 700 ? 60 : 0", more="")).ir, sink=sink)
    assert sink.again == 1
    assert sink.offers > 2
