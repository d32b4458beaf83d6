"""vLLM's scheduling written in the base language, which both serq and pyserq 0.1.0 run."""

from __future__ import annotations

from benchmarks.jobs import Job, Price


def step_program(job: Job, arrivals: str, wait: str) -> str:
    """The program of ``job``: ``arrivals`` is its arrival process, ``wait`` what a session does first."""
    engine = job.engine
    family = f"[{engine.replicas}]" if engine.replicas > 1 else ""
    member = "[member]" if engine.replicas > 1 else ""
    choose = f"set member = serial - {engine.replicas} * floor(serial / {engine.replicas});" if member else ""
    known = f"max(known, computed + 1), budget_left(engine{member})"
    if engine.prefix_caching:
        known = f"max(known, computed + 1), cachedin(kv{member}) + budget_left(engine{member})"
    reuse, cached, keep = (
        ("reuse (known - 1)", "- cached", "cache (new + out)") if engine.prefix_caching else ("", "", "")
    )
    return f"""
pool seqs{family} {{ cap {engine.max_num_seqs}; admit via engine; }}
pool kv{family} {{ cap {(engine.num_gpu_blocks - 1) * engine.block_size}; block {engine.block_size}; preempt lifo; }}
stage engine{family} : step {{ budget {engine.max_num_batched_tokens}; memory kv; cost {step_cost(job.price)}; }}
stage until : delay;
workload {{ {arrivals} hidden out; }}
session {{
  turn;
  {wait}
  {choose}
  set sent = now;
  set known = new;
  hold seqs{member} (1), kv{member} (min({known})) reserve (max(known, computed + 1)) {reuse} {{
    set known = max(known, computed + 1);
    prefill{" on engine" + member if member else ""} known {cached} growing kv{member};
    branch (known == new) {{ observe ttft = now - sent; }}
    decode{" on engine" + member if member else ""} (new + out - known - 1) growing kv{member};
  }} {keep}
  observe e2e = now - sent;
}}
run {{ horizon 1e9; }}
"""  # noqa: E501


def step_cost(price: Price) -> str:
    """``price`` as an expression of the language."""
    if price.kind == "affine":
        return f"{price.base!r} + {price.per_token!r} * tokens"
    return f"(prefilled > 0 ? {price.prefill!r} : 0) + (decoders > 0 ? {price.decode!r} : 0)"
