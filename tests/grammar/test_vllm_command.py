"""`vllm serve` command lines as stages: every spelling, every refusal."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from serq.cli import main
from serq.errors import UsageError
from serq.grammar.vllm_command import stage_of_command
from tests.grammar.texts import program

REQUIRED = "vllm serve some/model --max-model-len 4096 --num-gpu-blocks-override 100"


def options(flags: str) -> set[str]:
    text = stage_of_command(f"{REQUIRED} {flags}")
    assert text.refusals == []
    base = {"max_model_len 4096;", "num_gpu_blocks 100;"}
    return {line for line in text.lines if not line.startswith("//")} - base


def refusals(flags: str) -> list[str]:
    return stage_of_command(f"{REQUIRED} {flags}").refusals


ASCEND = [
    (
        """--additional-config '{"scheduler_config": {"short_request_first_config":
        {"enabled": true, "threshold": 64, "long_max_wait_ms": 12.5}}}'""",
        {"waiting short_request_first { threshold 64; long_max_wait_ms 12.5; }"},
    ),
    (
        """--additional-config '{"batch_job_sched_config": {"enabled": true, "max_jobs": 3}}'""",
        {"waiting batch_job_aware { max_jobs 3; }"},
    ),
    ("""--additional-config '{"dyntra_lb_config": {"enabled": false}}'""", set()),
    (
        """--additional-config.scheduler_config.dyntra_lb_config
        '{"enabled": true, "mode": "static", "start_step": 0}' -dp 2
        --additional-config.recompute_scheduler_enable true
        --kv-transfer-config '{"kv_connector": "X", "kv_role": "kv_consumer"}'""",
        {
            *("kv_connector kv_link;", "kv_role kv_consumer;", "data_parallel_size 2;"),
            "scheduler dyntra_lb { mode static; start_step 0; recompute_scheduler_enable true; }",
        },
    ),
    (
        """-pp 2 --additional-config '{"profiling_chunk_config": {"enabled": true, "need_timing": false}}'""",
        {"pipeline_parallel_size 2;", "scheduler profiling_chunk { need_timing false; }"},
    ),
    (
        "--scheduler-cls vllm_ascend.core.recompute_scheduler.AsyncRecomputeScheduler",
        {"scheduler recompute;"},
    ),
    ("--scheduler-cls vllm.v1.core.sched.scheduler.Scheduler", set()),
    ("""--additional-config '{"enable_balance_scheduling": true}' -dp 4""",
     {"scheduler balance;", "data_parallel_size 4;"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        *ASCEND,
        ("--max-num-seqs 64", {"max_num_seqs 64;"}),
        ("--max-num-seqs=64", {"max_num_seqs 64;"}),
        ("--max_num_seqs 64", {"max_num_seqs 64;"}),
        ("--max-num-batched-tokens 8k", {"max_num_batched_tokens 8000;"}),
        ("--max-num-batched-tokens 8K", {"max_num_batched_tokens 8192;"}),
        ("--max-num-batched-tokens 2.5k", {"max_num_batched_tokens 2500;"}),
        ("--no-enable-prefix-caching", {"enable_prefix_caching false;"}),
        ("--enable-prefix-caching", {"enable_prefix_caching true;"}),
        ("--async-scheduling", {"async_scheduling true;"}),
        ("--no-async-scheduling", {"async_scheduling false;"}),
        ("--watermark 0.01", {"watermark 0.01;"}),
        ("--scheduling-policy priority", {"waiting priority;"}),
        ("-dp 4", {"data_parallel_size 4;"}),
        ("--host 0.0.0.0 --port 8000 --served-model-name a b -tp 2", set()),
        ("--pipeline-parallel-size 1 --no-enable-lora", set()),
        (
            '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\'',
            {"speculative ngram { k 3; }"},
        ),
        ("--spec-method eagle3 --spec-tokens 2", {"speculative eagle3 { k 2; }"}),
        (
            '--kv-transfer-config \'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\'',
            {"kv_connector kv_link;", "kv_role kv_both;"},
        ),
        (
            "--kv-transfer-config.kv_connector X --kv-transfer-config.kv_role kv_producer",
            {"kv_connector kv_link;", "kv_role kv_producer;"},
        ),
    ],
)
def test_spellings(flags: str, lines: set[str]) -> None:
    assert options(flags) == lines


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--enable-lora", "--enable-lora: adapters"),
        ("--pipeline-parallel-size 2", "--pipeline-parallel-size: a pipeline is modelled only"),
        ("--scheduler-cls my.Scheduling", "`my.Scheduling` is not modelled; did you mean Scheduler?"),
        ("--additional-config '{\"dyntra_config\": {}}'", "did you mean `dyntra_lb_config`?"),
        (
            '--additional-config \'{"dyntra_lb_config": {"enabled": true, "mode": "fast"}}\'',
            "`dyntra_lb_config.mode` must be one of dynamic, static, not 'fast'",
        ),
        (
            '--additional-config \'{"batch_job_sched_config": {"enabled": true, "max_jobs": 2.5}}\'',
            "must be a whole number",
        ),
        (
            '--additional-config \'{"enable_balance_scheduling": true, "recompute_scheduler_enable": true}\'',
            "balance and recompute do not go together",
        ),
        ("--max-num-sequences 5", "did you mean --max-num-seqs?"),
        ("--max-num-seqs 1k", "`1k` is not a whole number"),
        ("--max-num-batched-tokens 2.5K", "`2.5K` is not a whole number"),
        ("--max-num-seqs", "--max-num-seqs takes a value"),
        ("--max-num-seqs 0", "must be at least 1"),
        ("--enable-prefix-caching=maybe", "turn it off with --no-enable-prefix-caching"),
        ("--scheduling-policy lifo", "`fcfs` or `priority`"),
        ('--speculative-config \'{"model": "m"}\'', "say its `method`"),
        ('--speculative-config \'{"method": "ngram"}\'', "say its `num_speculative_tokens`"),
        ('--kv-transfer-config \'{"kv_connector": "X"}\'', "`kv_role` is one of"),
    ],
)
def test_refusals(flags: str, words: str) -> None:
    (refusal,) = refusals(flags)
    assert words in refusal


@pytest.mark.parametrize(
    "command", ["echo hello", "", "vllm serve 'm", "vllm serve m --kv-transfer-config [1]"]
)
def test_what_is_no_command_line(command: str) -> None:
    with pytest.raises(UsageError):
        stage_of_command(command)


def test_lines_may_go_on_behind_a_backslash() -> None:
    command = "VLLM_USE_V1=1 vllm serve m \\\n  --max-num-seqs 7 \\\n  --max-model-len 100"
    assert "max_num_seqs 7;" in stage_of_command(command).lines


def test_the_stage_is_a_stage() -> None:
    flags = "--max-num-seqs 64 --no-enable-chunked-prefill --max-num-batched-tokens 8192 --block-size 32"
    text = stage_of_command(f"{REQUIRED} {flags}").render("gpu").replace("// cost …;", "cost 0.01; //")
    (stage,) = program(text).stages
    assert (stage.name, stage.kind.max_num_seqs, stage.kind.block_size) == ("gpu", 64, 32)  # type: ignore[union-attr]


def test_the_command() -> None:
    done = CliRunner().invoke(main, ["vllm-args", f"{REQUIRED} --max-num-seqs 3", "--name", "gpu"])
    assert done.exit_code == 0 and "stage gpu : vllm {\n" in done.stdout
    misnamed = CliRunner().invoke(main, ["vllm-args", REQUIRED, "--name", "my engine"])
    assert misnamed.exit_code == 2 and "'my engine' is no name" in misnamed.stderr
    quoted = CliRunner().invoke(main, ["vllm-args", f"{REQUIRED} --max-num-seqs 3"])
    unquoted = CliRunner().invoke(main, ["vllm-args", *f"{REQUIRED} --max-num-seqs 3".split()])
    assert unquoted.exit_code == 0 and unquoted.output == quoted.output
    refused = CliRunner().invoke(main, ["vllm-args", f"{REQUIRED} --enable-lora --headles"])
    assert refused.exit_code == 1
    assert refused.stdout == "" and refused.stderr.count("error:") == 2


def test_ranks_are_a_family() -> None:
    text = stage_of_command(f"{REQUIRED} --data-parallel-size 2 --max-num-seqs 4").render("npu")
    (stage,) = program(text.replace("// cost …;", "cost 0.01; //")).stages
    assert (stage.name, stage.count, stage.kind.data_parallel_size) == ("npu", 2, 2)  # type: ignore[union-attr]
    assert "choose j in 2 by" in text
