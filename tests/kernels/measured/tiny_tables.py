"""Operator tables so small that every price can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from serq.kernels.catalogue.model_config import shape_of_config
from serq.kernels.catalogue.models import ModelShape
from serq.kernels.measured.capture import CaptureSizes
from serq.kernels.measured.executor import MeasuredExecutor, Parallelism
from serq.kernels.measured.links import Link
from serq.kernels.measured.tables import OperatorTables

CONFIG = {
    "num_hidden_layers": 10,
    "hidden_size": 100,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 25,
    "intermediate_size": 300,
    "vocab_size": 1000,
}
"""The `config.json` of the model that the tables are of."""

EXPERTS_CONFIG = CONFIG | {"num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 30}

DENSE = shape_of_config("tiny", CONFIG, "here")
QWEN = replace(DENSE, name="tiny-qwen", qk_norm=True)
EXPERTS = shape_of_config("tiny-moe", EXPERTS_CONFIG, "here")

LAYERS = {
    "embedding": 1,
    "layernorm": 2,
    "qkv_proj": 3,
    "qk_norm": 4,
    "rotary_emb": 5,
    "o_proj": 6,
    "gate_up_proj": 7,
    "act_fn": 8,
    "down_proj": 9,
    "final_layernorm": 10,
}
"""Microseconds a token; each operator is linear from 1 to 8 tokens, and measured once more at 2048."""

ATTENTION = """prefill_chunk,kv_prefill,n_decode,kv_decode,time_us
0,0,1,100,10
0,0,1,200,20
0,0,4,100,30
0,0,4,200,70
16,0,0,0,100
16,64,0,0,150
32,0,0,0,180
32,64,0,0,260
16,0,1,100,400
16,0,1,200,440
16,64,1,100,500
16,64,1,200,560
32,0,1,100,800
32,0,1,200,880
32,64,1,100,1000
32,64,1,200,1120
"""

MOE = "tokens,activated_experts,time_us\n1,2,10\n4,2,20\n4,8,50\n8,8,60\n8,16,100\n"

SKEW_META = """skew_fit:
  enabled: {enabled}
  bucket_axes:
    n_bins: [0, 2, 4, 1000]
    n_labels: [n<=2, n<=4, n>4]
    skew_rate_bins: [-0.01, 0.5, 1.01]
    skew_rate_labels: [low, high]
    kv_big_bins: [0, 150, 1000]
    kv_big_labels: [short, long]
    kp_bins: [-1, 0, 1000]
    kp_labels: [none, some]
  per_tp:
    1:
      alpha_default: 0.25
      bucket_table: tp1/skew_fit.csv
"""
SKEW = "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,n_samples\n0,n<=2,high,long,none,1.5,4\n"


def write_tables(folder: Path, files: Mapping[str, str] | None = None, *, degree: int = 1) -> Path:
    """Write the tables; ``files`` replaces some, by path."""
    rows = [f"{name},{n},{n * time}" for name, time in LAYERS.items() for n in (1, 2, 4, 8, 2048)]
    sequences = [
        f"{name},{n},{time * n}" for name, time in (("lm_head", 11), ("sampler", 12)) for n in (1, 8)
    ]
    shard = f"tp{degree}"
    contents = {
        "meta.yaml": f"model: tiny\ngpu: a GPU\nvllm_version: 0.19.0\ntp_degrees: [1, {degree}]\n",
        f"{shard}/dense.csv": "\n".join(["layer,tokens,time_us", *rows]) + "\n",
        f"{shard}/per_sequence.csv": "\n".join(["layer,sequences,time_us", *sequences]) + "\n",
        f"{shard}/attention.csv": ATTENTION,
        "tp1/moe.csv": MOE,
        **(files or {}),
    }
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def executor(
    folder: Path,
    model: ModelShape = DENSE,
    parallelism: Parallelism | None = None,
    link: Link | None = None,
    capture: tuple[int, ...] = (),
    files: Mapping[str, str] | None = None,
) -> MeasuredExecutor:
    """An executor over tables written to ``folder``."""
    parallelism = parallelism or Parallelism()
    write_tables(folder, files, degree=parallelism.tensor)
    tables = OperatorTables.read(folder, model, parallelism.tensor, expert_parallel=parallelism.expert)
    return MeasuredExecutor(model, tables, CaptureSizes(capture), parallelism, link)
