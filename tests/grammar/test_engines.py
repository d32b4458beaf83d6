"""`stage S : vllm`: every option typed, every mistake told where it stands."""

from __future__ import annotations

import pytest

from serq.ir.nodes import Binary, Number, Variable
from serq.ir.serving import KVCacheGroup, Layout, SchedulerOption, Speculative, Vllm, Waiting, WaitingOption
from tests.grammar.texts import codes, errors, pointed, program

REQUIRED = "num_gpu_blocks 100; max_model_len 4096; cost 0.01;"


def engine(options: str, above: str = "") -> Vllm:
    kind = program(f"{above} stage gpu : vllm {{ {REQUIRED} {options} }}").stages[0].kind
    assert isinstance(kind, Vllm)
    return kind


def wrong(options: str) -> tuple[str, str, str]:
    """The code, the place and the message of the one mistake in an engine."""
    (error,) = errors(f"stage gpu : vllm {{ {REQUIRED} {options} }}")
    return error.code, pointed(error), error.message


def test_what_is_not_written_is_left_to_vllm() -> None:
    assert engine("") == Vllm(Number(0.01), 100, 4096)


def test_plain_options() -> None:
    made = engine(
        "max_num_seqs 4 * n; enable_prefix_caching false; watermark 1e-2; async_scheduling 1;", "let n = 3;"
    )
    assert (made.max_num_seqs, made.enable_prefix_caching, made.watermark, made.async_scheduling) == (
        12,
        False,
        0.01,
        True,
    )


def test_groups_stay_in_order() -> None:
    text = (
        "group full { block_size 32; } group sliding { window 128; eagle true; } group mamba { mode align; };"
    )
    assert engine(text).groups == (
        KVCacheGroup("full", 32),
        KVCacheGroup("sliding", window=128, eagle=True),
        KVCacheGroup("mamba", mode="align"),
    )


def test_speculation() -> None:
    text = "speculative eagle3 { k 3; accept 0.8, 1 / 2; per_batch_size 1, 4, 3, 5, 128, 1; }"
    assert engine(text).speculative == Speculative("eagle3", 3, (0.8, 0.5), ((1, 4, 3), (5, 128, 1)))


def test_orders_of_the_waiting_queue() -> None:
    assert engine("waiting priority;").waiting == Waiting("priority")
    assert engine("waiting fcfs { }").waiting == Waiting("fcfs")
    lanes = engine("waiting short_request_first { threshold 64; fixed true; }").waiting
    assert lanes == Waiting(
        "short_request_first", options=(WaitingOption("threshold", 64.0), WaitingOption("fixed", 1.0))
    )
    keys = engine("waiting by (priority, prompt_tokens - waited);").waiting
    difference = Binary("-", Variable("prompt_tokens"), Variable("waited"))
    assert keys == Waiting("by", (Variable("priority"), difference))


def test_the_cost_reads_the_step() -> None:
    text = "stage gpu : vllm { num_gpu_blocks 9; max_model_len 99; cost scheduled + tokens; }"
    kind = program(text).stages[0].kind
    assert isinstance(kind, Vllm)
    assert kind.cost == Binary("+", Variable("scheduled"), Variable("tokens"))


def test_a_let_wins_over_what_the_step_supplies() -> None:
    text = "let scheduled = 7; stage gpu : vllm { num_gpu_blocks 9; max_model_len 99; cost scheduled; }"
    kind = program(text).stages[0].kind
    assert isinstance(kind, Vllm)
    assert kind.cost == Number(7.0)


def test_cost_via_a_let_of_that_name() -> None:
    text = "let via = 2; stage gpu : vllm { num_gpu_blocks 9; max_model_len 99; cost via; }"
    kind = program(text).stages[0].kind
    assert isinstance(kind, Vllm)
    assert kind.cost == Number(2.0)


@pytest.mark.parametrize(
    ("options", "code", "place"),
    [
        ("max_num_seq 5;", "E222", "max_num_seq"),
        ("max_num_seqs 5; max_num_seqs 5;", "E223", "max_num_seqs"),
        ("cost 1;", "E223", "cost 1;"),
        ("enable_lora true;", "E224", "enable_lora"),
        ("kv_cache_memory_bytes 9e9;", "E224", "kv_cache_memory_bytes"),
        ("max_num_seqs 2.5;", "E225", "2.5"),
        ("max_num_seqs inf;", "E225", "inf"),
        ('max_num_seqs "many";', "E225", '"many"'),
        ("max_num_seqs 1, 2;", "E225", "max_num_seqs 1, 2;"),
        ("max_num_seqs by (1);", "E225", "max_num_seqs by (1);"),
        ("async_scheduling 2;", "E225", "2"),
        ("scheduler recompile;", "E225", "recompile"),
        ("group fulll { }", "E225", "fulll"),
        ("group full;", "E225", "group full;"),
        ("group full { window 5; }", "E222", "window"),
        ("group sliding { }", "E217", "group sliding { }"),
        ("speculative ngram { }", "E217", "speculative ngram { }"),
        ("speculative ngramm { k 1; }", "E225", "ngramm"),
        ("speculative ngram { k 1; accept 1.5; }", "E433", "1.5"),
        (
            "speculative ngram { k 1; accept 0.5, 0.5; }",
            "E433",
            "speculative ngram { k 1; accept 0.5, 0.5; }",
        ),
        ("waiting short_request_first { treshold 5; }", "E222", "treshold"),
        ("max_num_seqs 0;", "E433", "0"),
        ("max_num_seqs 128; max_num_batched_tokens 64;", "E433", "64"),
        ("enable_chunked_prefill false;", "E433", "false"),
        ("long_prefill_token_threshold 5000;", "E433", "5000"),
        ("data_parallel_size 2;", "E433", "2"),
        ("pipeline_parallel_size 2;", "E433", "2"),
        ("scheduler profiling_chunk;", "E433", "profiling_chunk"),
        ("scheduler dyntra_lb;", "E433", "dyntra_lb"),
        ("scheduler balance { x 1; }", "E222", "x"),
        (
            "waiting batch_job_aware; pipeline_parallel_size 2; scheduler profiling_chunk;",
            "E433",
            "profiling_chunk",
        ),
        ("kv_connector link; kv_role kv_both;", "E401", "link"),
        ("waiting by (tokens);", "E402", "tokens"),
        ("waiting by (~exp(1));", "E405", "~exp(1)"),
    ],
)
def test_mistakes(options: str, code: str, place: str) -> None:
    assert wrong(options)[:2] == (code, place)


def test_what_is_needed() -> None:
    messages = [error.message for error in errors("stage gpu : vllm { }")]
    assert [message.split(":")[0] for message in messages] == [
        "stage `gpu` needs `cost`",
        "stage `gpu` needs `max_model_len`",
        "stage `gpu` needs `num_gpu_blocks`",
    ]


ADDED = (
    "executor connector gauge slo expect within for class follows traced vllm running waiting kv_usage "
    "priority job ttft reusable prompt_tokens scheduled blocks true false"
)


@pytest.mark.parametrize("word", ADDED.split())
def test_added_words_are_free_names(word: str) -> None:
    """Compatibility rule 1: a base program may use any word that came later."""
    assert codes(f"let {word} = 1; session {{ observe x = {word}; }}") == []
    if word != "waiting":  # the base has a variable of that name
        assert codes(f"session {{ set {word} = 1; observe {word} = {word} + 1; }}") == []
    assert codes(f"def {word}(x) = x + 1; session {{ observe x = {word}(2); }}") == []
    assert codes(f"def {word}(x) {{ observe y = x; }} session {{ {word}(2); }}") == []
    assert (
        codes(f"pool {word} {{ cap 1; }} session {{ hold {word} (1) {{ }} observe x = used({word}); }}") == []
    )
    assert codes(f"stage {word} : delay; session {{ run {word} (1); }}") == []


def test_connectors_and_gauges() -> None:
    made = program(
        "stage wire : ps(1); connector c : transfer { over wire; work tokens + blocks; fail ~bernoulli(0.1); "
        "offload_blocks 4; } gauge g = queue(wire);"
    )
    (connector,), (gauge,) = made.connectors, made.gauges
    assert connector.work == Binary("+", Variable("tokens"), Variable("blocks"))
    assert (connector.over.name, connector.offload_blocks, connector.latency) == ("wire", 4, None)
    assert gauge.name == "g"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("connector c : transfer { work 1; }", "E217", "c"),
        ("stage w : ps(1); connector c : transfer { over w; work 1; over w; }", "E223", "over"),
        ("stage w : ps(1); connector c : transfer { over w; work 1; speed 2; }", "E222", "speed"),
        ("stage w : ps(1); connector c : wire { over w; work 1; }", "E225", "wire"),
        ("connector c : transfer { over w; work 1; }", "E209", "w"),
        ("session { set x = 1; } gauge g = x;", "E403", "x"),
        ("gauge g = ~exp(1);", "E405", "~exp(1)"),
        ("gauge g = 1; gauge g = 2;", "E219", "g"),
    ],
)
def test_mistakes_beside_the_stages(text: str, code: str, place: str) -> None:
    (error,) = errors(text)
    assert (error.code, pointed(error)) == (code, place)


def test_layouts() -> None:
    text = "layout vllm_ascend { device A5; cudagraph_capture_sizes 1, 2 * 2; enforce_eager true; }"
    assert engine(text).layout == Layout(device="A5", cudagraph_capture_sizes=(1, 4), enforce_eager=True)
    assert engine("layout sglang;").layout == Layout("sglang")
    assert engine("").layout == Layout()


def test_mistakes_in_layouts() -> None:
    assert wrong("layout sglan;")[:2] == ("E225", "sglan")
    assert wrong("layout sglang { enforce_eager true; }")[:2] == ("E224", "enforce_eager")
    assert wrong("layout vllm_ascend { device B1; }")[:2] == ("E225", "B1")
    assert wrong("layout vllm_ascend { cudagraph_capture_sizes 1, 0; }")[0] == "E433"
    assert wrong("layout vllm_ascend { cudagraph_capture_sizes 1.5; }")[0] == "E225"


def test_schedulers() -> None:
    text = "pipeline_parallel_size 2; scheduler profiling_chunk { min_chunk 64; need_timing false; }"
    made = engine(text)
    assert (made.scheduler, made.scheduler_options) == (
        "profiling_chunk",
        (SchedulerOption("min_chunk", 64), SchedulerOption("need_timing", 0)),
    )
    assert engine("scheduler balance;").scheduler == "balance"
    assert engine("scheduler default { }").scheduler_options == ()


def test_a_word_of_a_scheduler() -> None:
    text = f"stage npu[2] : vllm {{ {REQUIRED} data_parallel_size 2; kv_connector c; kv_role kv_consumer;"
    wire = "stage wire : ps(1); connector c : transfer { over wire; work tokens; }"
    kind = program(f"{wire} {text} scheduler dyntra_lb {{ mode static; }} }}").stages[1].kind
    assert isinstance(kind, Vllm) and kind.scheduler_options == (SchedulerOption("mode", "static"),)
    (error,) = errors(f"{wire} {text} scheduler dyntra_lb {{ mode fast; }} }}")
    assert (error.code, pointed(error)) == ("E225", "fast")
