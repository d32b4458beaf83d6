"""Prompts as runs name blocks where chained keys do, block by block; traced runs record what walks do."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serq import api
from serq.runtime.open_run.prompts import PromptChains
from serq.runtime.serving.identity import Prefix, prompt_tokens
from serq.runtime.simulation import simulate
from serq.runtime.trace import Trace
from serq.runtime.vllm.extents.chains import Chain, Run
from serq.runtime.vllm.tokens import PrefixHasher
from tests.fuzz.fast_path import columns

Prompt = tuple[int, Prefix | None, list[int] | None]
"""Tokens, named text, hash ids."""

ID_LISTS = st.lists(st.integers(0, 2), max_size=4)
TEXTS = st.tuples(st.sampled_from([1.0, 2.0]), st.sampled_from([0, 5, 16, 48, 512, 3000]))
LENGTHS = st.integers(1, 2100)
PROMPTS = st.tuples(LENGTHS, st.none() | TEXTS, st.none()) | st.tuples(LENGTHS, st.none(), ID_LISTS)


def named_blocks(chain: Chain, count: int) -> list[tuple[Run, int]]:
    """(run, number) of the first ``count`` blocks."""
    names: list[tuple[Run, int]] = []
    before = 0
    for run, end in zip(chain.runs, chain.ends, strict=True):
        assert end > before
        names += [(run, number) for number in range(min(end, count) - before)]
        before = end
        if end >= count:
            break
    return names


@given(st.sampled_from([1, 3, 16, 48, 128, 512, 600, 1024]), st.lists(PROMPTS, max_size=12))
def test_blocks_have_one_name_where_they_have_one_key(size: int, prompts: list[Prompt]) -> None:
    chains, hasher = PromptChains(size), PrefixHasher(size)
    keys_of: dict[tuple[Run, int], int] = {}
    names_of: dict[int, tuple[Run, int]] = {}
    for number, (length, prefix, ids) in enumerate(prompts):
        hash_ids = None if ids is None else array("q", ids)
        tokens = prompt_tokens(number, length, prefix=prefix, hash_ids=ids)
        tokens.append(("output", number), 0, 100)
        keys = hasher.keys_of(tokens).keys
        names = named_blocks(chains.chain(length, prefix, hash_ids), len(keys))
        assert len(names) == len(keys)
        for name, key in zip(names, keys, strict=True):
            assert keys_of.setdefault(name, key) == key
            assert names_of.setdefault(key, name) == name


def test_turns_of_a_conversation_are_one_run_and_what_is_their_own() -> None:
    """Each turn repeats the ids of the one before; nothing parts before the second conversation."""
    chains = PromptChains(16)
    turns = [chains.chain(512 * count, None, array("q", range(count))) for count in (2, 5, 9)]
    assert [turn.ends[:-1] for turn in turns] == [[64], [160], [288]]
    assert len({turn.runs[0] for turn in turns}) == 1
    other = chains.chain(2048, None, array("q", [0, 1, 7, 8]))
    assert other.ends[:-1] == [64, 128]
    assert other.runs[0] is turns[0].runs[0]


def random_trace(random: Random, count: int) -> Trace:
    """Conversations that share their first ids, come back longer, and end inside of an id."""
    trace = Trace(format="mooncake", times=array("d"), hash_ids=[])
    assert trace.times is not None and trace.hash_ids is not None
    conversations: list[list[int]] = []
    time, fresh = 0.0, 10
    for row in range(count):
        ids = list(random.choice(conversations)) if conversations and random.random() < 0.6 else [0]
        del ids[random.randint(1, 9) :]
        more = random.choice([0, 0, 1, 1, 2, 5])
        ids += [random.randrange(4) if random.random() < 0.2 else fresh + i for i in range(more)]
        fresh += more
        del ids[9:]
        conversations.append(ids)
        trace.new.append(512.0 * len(ids) - random.choice([0, 0, 1, 15, 16, 17, 300, 511]))
        trace.out.append(float(random.choice([1, 2, 15, 16, 40, 300])))
        trace.think.append(0.0)
        trace.forced.append(0.0)
        trace.first_row.append(row + 1)
        time += random.choice([0.0, 0.0, 1.0, 7.0, 30.0])
        trace.times.append(time)
        trace.hash_ids.append(array("q", ids))
    return trace


@pytest.mark.parametrize("seed", range(40))
def test_traced_runs_record_what_walks_do(seed: int) -> None:
    random = Random(seed)
    size = random.choice([16, 16, 16, 32, 48, 128])
    text = f"""
    stage npu : vllm {{
      num_gpu_blocks {random.choice([5200, 5200, 6000, 9000]) // size}; block_size {size};
      max_num_seqs {random.choice([2, 8])}; max_num_batched_tokens {random.choice([64, 700, 2048])};
      max_model_len 5000; async_scheduling {random.choice(["true", "false"])};
      cost {random.choice(["1", "1 + prefilled / 100", "0.25"])};
    }}
    workload {{ arrive trace ({random.choice([1, 5])}); trace "x.jsonl" ordered; hidden out; }}
    session {{
      turn;
      request r on npu ({random.choice(["new", "new", "new + 20", "max(1, new - 600)"])}, out)
        traced;
      observe cached = cached_tokens(r);
    }}
    run {{ horizon 100000; }}
    """
    program, trace = api.compile(source=text), random_trace(random, 60)
    ahead, walked = (simulate(program.ir, trace=trace, engine=mode) for mode in ("auto", "reference"))
    assert columns(ahead) == columns(walked)
    assert ahead.clock_reason is None
