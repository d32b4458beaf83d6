"""Measured runs written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kernels.measured.tiny_tables import CONFIG, write_tables

META: dict[str, Any] = {
    "model": "tiny",
    "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64},
}


def request(
    prompt: int = 16,
    output: int = 3,
    arrival: float = 0,
    queued: float = 0,
    first: float = 1,
    last: float = 2,
) -> dict[str, float]:
    """A line of `requests.jsonl`; the engine's clock is 1000 s behind the client's."""
    return {
        "input_toks": prompt,
        "output_toks": output,
        "arrival_time": 1000 + arrival,
        "queued_ts": queued,
        "first_token_ts": first,
        "last_token_ts": last,
    }


def write_run(
    folder: Path, requests: Sequence[dict[str, Any]], meta: dict[str, Any] | None = META, **config: Any
) -> Path:
    """Write a run folder; ``config`` goes to `config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requests.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in requests))
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_model(folder: Path, config: dict[str, Any] | None = None) -> tuple[Path, dict[str, Any]]:
    """Write tiny tables and a model's configuration; (tables, what `set_up` is given)."""
    write_tables(folder / "tables")
    (folder / "model.json").write_text(json.dumps(config or CONFIG))
    return folder / "tables", {"model_config": folder / "model.json", "enforce_eager": True}
