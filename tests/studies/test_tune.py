"""Tuning an engine whose goodput follows from its options by hand."""

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.errors import UsageError
from serq.grammar.vllm_command import stage_of_command
from serq.ir.vllm_serve import serve_command
from serq.studies.backend import Backend
from serq.studies.tune import TunePlan, tune
from serq.studies.tune_text import tune_text

# A step takes 0.1 s whatever it holds; 8 clients, each always has a request of 16 + 4 tokens under way. With
# `seqs` slots, seqs requests end every 4 steps: seqs / 0.4 a second, at most 8 / 0.4 = 20.
PROGRAM = """
stage e : vllm { max_num_seqs 2; max_model_len 64; num_gpu_blocks 500; async_scheduling false; cost 0.1; }
workload { arrive closed(8); }
session { request r on e (16, 4); }
slo e2e p99 < LIMIT;
run { horizon 80.04; }
"""


@pytest.fixture
def program(tmp_path):
    def write(limit):
        file = tmp_path / "p.sq"
        file.write_text(PROGRAM.replace("LIMIT", str(limit)))
        return file

    return write


def test_the_fewest_changes_near_the_best(program):
    plan = TunePlan(program(10), {"max_num_seqs": (4, 8, 128)}, replications=2)
    result = tune(plan, backend=Backend(1))
    assert [trial.mean for trial in result.trials] == pytest.approx([10.0, 20.0, 20.0], rel=0.01)
    assert dict(result.chosen.configuration.options) == {"max_num_seqs": 128}  # vLLM's default: no change
    assert result.chosen.configuration.changes == 0
    assert result.loss(result.trials[0]).mean == pytest.approx(0.5, abs=0.01)
    # 80.04 s are 200 rounds of 8 requests
    assert tune_text(result).startswith("max_num_seqs 128 (vLLM's defaults): goodput 19.99")
    assert result.exact and [len(trial.goodput) for trial in result.trials] == [1, 1, 1]
    assert "nothing is drawn" in tune_text(result) and "±" not in tune_text(result)


def test_a_change_that_pays_is_made(program):
    plan = TunePlan(program(10), {"max_num_seqs": (4, 128), "max_num_batched_tokens": (64, 2048)})
    result = tune(plan, backend=Backend(1))
    assert dict(result.chosen.configuration.options) == {"max_num_seqs": 128, "max_num_batched_tokens": 2048}
    # 128 sequences do not fit a budget of 64 tokens (S-003)
    failed = [trial for trial in result.trials if trial.failure is not None]
    assert [str(trial.configuration) for trial in failed] == ["max_num_seqs 128, max_num_batched_tokens 64"]
    assert "1 configurations cannot be run" in tune_text(result)


def test_objectives_decide_before_goodput(program):
    # with 8 slots a request takes 0.4 s; with 4 it waits for the four before it: 0.8 s
    result = tune(TunePlan(program(0.5), {"max_num_seqs": (4, 8)}, replications=1), backend=Backend(1))
    assert dict(result.chosen.configuration.options) == {"max_num_seqs": 8}
    assert [trial.met for trial in result.trials] == [False, True]


def test_what_cannot_be_reached_names_the_nearest(program):
    result = tune(TunePlan(program(0.3), {"max_num_seqs": (4, 8)}, replications=1), backend=Backend(1))
    assert result.chosen is None
    text = tune_text(result)
    assert text.startswith("no configuration of 2 meets every objective") and "measured 0." in text


def test_the_share_of_the_device_is_on_the_command_line():
    source = """
    executor chip : roofline { model "Qwen3-8B"; device "910B3"; }
    stage e : vllm { max_model_len 4096; gpu_memory_utilization 0.85; cost via chip; }
    run { horizon 1; }
    """
    command = serve_command(serq.compile(source=source).ir.stages[0].kind)
    assert command.command.endswith("--gpu-memory-utilization 0.85 --max-model-len 4096")
    assert command.unsaid == ()


def test_the_command_line_means_the_stage():
    source = """
    stage e : vllm { max_num_seqs 64; max_num_batched_tokens 4096; max_model_len 8192;
                     num_gpu_blocks 500;
                     enable_prefix_caching false; long_prefill_token_threshold 512;
                     waiting priority; cost 1; }
    run { horizon 1; }
    """
    engine = serq.compile(source=source).ir.stages[0].kind
    command = serve_command(engine)
    assert command.unsaid == ()
    assert "--max-num-seqs 64" in command.command and "--no-enable-prefix-caching" in command.command
    text = stage_of_command(command.command).render("e")
    again = serq.compile(source=text.replace("}", " cost 1; }") + " run { horizon 1; }").ir.stages[0].kind
    assert again == engine


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ({"max_num_seq": (1,)}, "did you mean `max_num_seqs`"),
        ({"kv_role": (1,)}, "no option of an engine that can be tuned"),
        ({"max_num_seqs": ()}, "0 configurations"),
    ],
)
def test_candidates_that_make_no_sense(program, candidates, said):
    with pytest.raises(UsageError, match=said):
        tune(TunePlan(program(1), candidates), backend=Backend(1))


def test_the_command(program):
    words = ["tune", str(program(10)), "--reps", "1", "--jobs", "1", "--try"]
    done = CliRunner().invoke(main, [*words, "max_num_seqs=8,16"])
    assert done.exit_code == 0, done.output
    assert "vllm serve MODEL" in done.stdout and "--max-num-seqs" in done.stdout
    missed = CliRunner().invoke(main, [*words, "max_num_seqs=8", "--slo", "ttft p50 < 0.01"])
    assert missed.exit_code == 1 and "nearest:" in missed.stdout
    assert CliRunner().invoke(main, [*words, "max_num_seqs=8", "--stage", "f"]).exit_code == 2
