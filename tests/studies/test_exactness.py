"""What is random in a program, one kind at a time."""

import pytest

import serq
from serq.studies.exactness import draws_nothing

TRACE = "session,turn,new,out,think,forced,time\n1,1,16,2,0,0,0\n2,1,32,2,0,0,5\n"
ENGINE = "stage s : vllm { num_gpu_blocks 99; max_model_len 64; cost 1; SPECULATIVE }"


def program(arrive="batch(2)", work="1", workload=""):
    return f"""
    stage s : fifo;
    workload {{ {workload} arrive {arrive}; }}
    session {{ run s ({work}); }}
    run {{ horizon 10; }}
    """


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        (program(), True),
        (program("closed(3)"), True),
        (program("renewal(2)"), True),
        (program("poisson(2)"), False),
        (program("renewal(~exp(2))"), False),
        (program(work="~uniform(1, 2)"), False),
        (program(work="~det(2)"), True),
        (program(work="~det(~exp(2))"), False),
    ],
)
def test_arrivals_and_draws(text, nothing):
    assert draws_nothing(serq.compile(source=text)) is nothing


@pytest.mark.parametrize(("chances", "nothing"), [("1, 0", True), ("1, 0.5", False), ("0", True)])
def test_drafts_that_are_taken_by_chance(chances, nothing):
    speculative = f"speculative ngram {{ k 2; accept {chances}; }}"
    text = f"""
    {ENGINE.replace("SPECULATIVE", speculative)}
    workload {{ arrive batch(2); }}
    session {{ request r on s (16, 4); }}
    run {{ horizon 10; }}
    """
    assert draws_nothing(serq.compile(source=text)) is nothing


@pytest.mark.parametrize(
    ("workload", "arrive", "nothing"),
    [
        ("trace 'T' ordered;", "batch(2)", True),
        ("trace 'T';", "batch(2)", False),
        ("trace 'T';", "trace(1)", True),
    ],
)
def test_sessions_of_a_trace(tmp_path, workload, arrive, nothing):
    (tmp_path / "t.csv").write_text(TRACE)
    file = tmp_path / "p.sq"
    file.write_text(
        program(arrive, "new", workload.replace("'T'", '"t.csv"')).replace("run s", "turn; run s")
    )
    assert draws_nothing(serq.compile(file)) is nothing
