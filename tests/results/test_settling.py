"""MSER-5 on the main series: series whose warm-up is known, and which series that is."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import serq
from serq.results.settling import MainSeries, Settling, main_name, settling
from serq.results.statistics import InMemory


def series(values: list[float]) -> MainSeries:
    """Sample number i was recorded at 10 + i."""
    return MainSeries("x", InMemory(values), lambda place: 10.0 + place)


def noise(count: int, centre: float = 0.0) -> list[float]:
    """Alternately half above and half below: batches of 5 have means of a tenth around the centre."""
    return [centre + (0.5 if place % 2 else -0.5) for place in range(count)]


def test_a_beginning_that_matters() -> None:
    """100 samples of 9 and 900 around 0: the mean is 0.9 with them, and 0 without."""
    found = settling(series([9.0] * 100 + noise(900)))
    assert found == Settling("x", 1000, 100, 110.0, 0.9, 0.0)
    assert found.note() == (
        "`x` still warms up (MSER-5): without its first 100 of 1000 samples, up to 110, its mean is 0, "
        "with them 0.9; try `warmup 110`"
    )


def test_a_beginning_that_does_not_matter() -> None:
    """5 samples of 4 in 1000 move the mean by 0.02; noise of sd 1 has a half-width of about 0.06."""
    random = Random(3)
    steady = [random.gauss(0.0, 1.0) for _ in range(995)]
    assert settling(series([4.0] * 5 + steady)) is None
    assert settling(series([100.0] * 5 + steady)) is not None


def test_a_series_that_never_settles() -> None:
    """0, 1, …, 999: the halves have means 249.5 and 749.5."""
    found = settling(series([float(value) for value in range(1000)]))
    assert found is not None and found.until is None and (found.before, found.after) == (249.5, 749.5)
    assert "does not settle (MSER-5): its mean is 249.5 in the first half of the run and 749.5 in the" in (
        found.note()
    )


def test_nothing_to_say() -> None:
    assert settling(series(noise(1000))) is None
    assert settling(series([9.0] * 10 + noise(30))) is None  # too short
    assert settling(series([1.0] * 500)) is None


QUEUE = """
stage d : fifo;
workload {{ arrive renewal(1); }}
session {{ set sent = now; observe none = 0 / 1; run d (service); observe response = now - sent; }}
{asked}
run {{ horizon 1000; warmup 10; }}
"""


@pytest.mark.parametrize(
    ("asked", "name"), [("", "none"), ("slo response p99 < 5;", "response"), ("slo none p50 < 1;", "none")]
)
def test_which_series(asked: str, name: str) -> None:
    text = QUEUE.format(asked=asked).replace("service", "0.5")
    report = serq.run(serq.compile(source=text))
    assert main_name(report.program, report.observations, False) == name
    assert main_name(None, {}, True) == "ttft" and main_name(None, {}, False) is None


def test_an_overloaded_queue_does_not_settle(tmp_path: Path) -> None:
    """One arrives a second and two are served in three: the wait of number n grows by half a second each."""
    text = QUEUE.format(asked="slo response p99 < 5;").replace("service", "1.5")
    program = serq.compile(source=text)
    report = serq.run(program)
    assert report.settling is not None and report.settling.until is None
    (line,) = [line for line in repr(report).splitlines() if "MSER-5" in line]
    assert line.startswith("note: `response` does not settle")
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    assert serq.read_run(tmp_path / "run").settling == report.settling


ENGINE = """
stage e : vllm { max_num_seqs 1; max_num_batched_tokens 8; max_model_len 64; num_gpu_blocks 11;
                 async_scheduling false; enable_prefix_caching false; cost 0.1; }
workload { arrive renewal(2.5); }
session { branch (serial < EARLY) { request big on e (48, 2); } else { request r on e (8, 2); } }
run { horizon 1000; warmup 10; }
"""


def test_prompts_that_become_short(tmp_path: Path) -> None:
    """The prompts of sessions 0 to 99 take six steps of 0.1 s, later ones one; nobody waits.

    Session n comes at 2.5 (n + 1), so that 3 to 398 end from 10 on: 97 of 396 samples are 0.6, the others
    0.1. Batches of 5 end the beginning at sample 100, which is session 103: it comes at 260, for two steps.
    """
    program = serq.compile(source=ENGINE.replace("EARLY", "100"))
    report = serq.run(program)
    found = report.settling
    assert found is not None and (found.name, found.count, found.dropped) == ("ttft", 396, 100)
    assert found.until == pytest.approx(260.2) and found.after == pytest.approx(0.1)
    assert found.before == pytest.approx((97 * 0.6 + 299 * 0.1) / 396)
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    assert serq.read_run(tmp_path / "run").settling == found


def test_rounding_is_no_beginning() -> None:
    """Every time to first token is 0.1, but for the last digits."""
    report = serq.run(serq.compile(source=ENGINE.replace("EARLY", "0")))
    assert len(set(report.requests["first_token"] - report.requests["sent"])) > 1
    assert report.settling is None
