"""`executor` and `cost via`: what is linked, and what is refused with what help."""

from __future__ import annotations

import pytest

from serq.ir import nodes
from serq.ir.codec import decode, encode
from serq.ir.serving import ExecutorOption, Via
from serq.ir.validate import validate
from tests.grammar.texts import codes, errors, pointed, program

STAGE = "stage gpu : vllm { num_gpu_blocks 9; max_model_len 99; cost via e; }"
NEAR = "did you mean `tensor_parallel_size`?"
EXECUTOR = 'executor e : roofline { model "Qwen3-8B"; device "910B3"; tensor_parallel_size 2; }'


def test_an_executor_and_the_stage_that_names_it() -> None:
    linked = program(f"let ranks = 1; {EXECUTOR.replace('2', '2 * ranks')} {STAGE}")
    (executor,) = linked.executors
    assert executor == nodes.Executor(
        "e",
        "roofline",
        (
            ExecutorOption("model", "Qwen3-8B"),
            ExecutorOption("device", "910B3"),
            ExecutorOption("tensor_parallel_size", 2),
        ),
    )
    (stage,) = linked.stages
    assert isinstance(stage.kind, nodes.Vllm) and stage.kind.cost == Via("e")
    assert decode(encode(linked)) == linked


def test_a_step_stage_and_a_let_named_via() -> None:
    stages = "stage s : step { cost via e; } let via = 3; stage t : step { cost via; }"
    linked = program(f"{EXECUTOR} {stages}")
    first, second = (stage.kind for stage in linked.stages)
    assert isinstance(first, nodes.Step) and first.cost == Via("e")
    assert isinstance(second, nodes.Step) and second.cost == nodes.Number(3.0)


@pytest.mark.parametrize(
    ("text", "code", "place", "help_"),
    [
        (f"{EXECUTOR} {STAGE.replace('via e', 'via f')}", "E209", "f", "the only executor is `e`"),
        (STAGE, "E209", "e", "declare it: `executor e : KIND { … }`"),
        (f"{EXECUTOR.replace('roofline', 'rooflin')} {STAGE}", "E225", "rooflin", "did you mean `roofline`?"),
        (EXECUTOR.replace("tensor", "tenser"), "E222", "tenser_parallel_size", NEAR),
        (EXECUTOR.replace('"910B3"', "b3"), "E225", "b3", 'write `device "b3";`'),
        (EXECUTOR.replace("2;", '"2";'), "E225", '"2"', None),
        (EXECUTOR.replace("2;", "1.5;"), "E225", "1.5", None),
        (EXECUTOR.replace("2;", "0;"), "E433", "0", None),
        (EXECUTOR.replace('device "910B3";', ""), "E217", "e", 'add `device "…";`'),
        (EXECUTOR.replace("device", "model"), "E223", "model", None),
        (EXECUTOR + EXECUTOR, "E219", "e", None),
        (f"{EXECUTOR} stage s : step {{ cost 1; cost via e; }}", "E223", "cost via e;", None),
    ],
)
def test_what_is_refused(text: str, code: str, place: str, help_: str | None) -> None:
    assert (code, place, help_) in [(error.code, pointed(error), error.help) for error in errors(text)]


def test_an_executor_that_cannot_be_read_is_not_missed() -> None:
    assert codes("executor e : nothing { } " + STAGE) == ["E225"]


def validated(executor: nodes.Executor, cost: str = "e") -> list[str]:
    stage = nodes.Stage("s", nodes.Step(Via(cost)))
    tree = nodes.Program(nodes.IR_VERSION, stages=(stage,), executors=(executor,))
    return [problem.code for problem in validate(tree) if problem.severity == "error"]


def test_a_tree_written_by_hand_obeys_the_same_rules() -> None:
    model, device = ExecutorOption("model", "Qwen3-8B"), ExecutorOption("device", "910B3")

    def executor(*options: ExecutorOption, kind: str = "roofline") -> nodes.Executor:
        return nodes.Executor("e", kind, options)

    assert validated(executor(model, device)) == []
    assert validated(executor(model, device), cost="f") == ["E401"]
    assert validated(executor(model)) == ["E217"]
    assert validated(executor(kind="magic")) == ["E225"]
    assert validated(executor(model, device, device)) == ["E223"]
    assert validated(executor(model, device, ExecutorOption("tp", 2))) == ["E222"]
    assert validated(executor(model, ExecutorOption("device", 3.0))) == ["E225"]
    assert validated(executor(model, device, ExecutorOption("tensor_parallel_size", True))) == ["E225"]
    assert validated(executor(model, device, ExecutorOption("tensor_parallel_size", 0))) == ["E433"]


def test_blocks_may_be_left_to_an_executor_that_knows_the_device() -> None:
    stage = "stage gpu : vllm { max_model_len 99; gpu_memory_utilization 0.8; cost via e; }"
    (linked,) = program(f"{EXECUTOR} {stage}").stages
    assert isinstance(linked.kind, nodes.Vllm)
    assert (linked.kind.num_gpu_blocks, linked.kind.gpu_memory_utilization) == (None, 0.8)
    assert codes(f'executor e : table {{ tables "x"; }} {stage}') == ["E217"]
    (missing,) = errors("stage gpu : vllm { max_model_len 99; cost 1; gpu_memory_utilization 0.8; }")
    assert missing.message == "stage `gpu` needs `num_gpu_blocks`: blocks of the KV cache"
    both = stage.replace("cost", "num_gpu_blocks 9; cost")
    (useless,) = errors(f"{EXECUTOR} {both}")
    assert (useless.code, pointed(useless), useless.help) == ("E433", "0.8", "leave one out")
