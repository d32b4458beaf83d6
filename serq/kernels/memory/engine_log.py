"""The size of a KV cache as vLLM logs it when it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serq.errors import DataError
from serq.source import read_text

_LINES: Final = {
    "num_gpu_blocks": r"(?:# (?:GPU|NPU|HPU|TPU) blocks|num_gpu_blocks(?: is)?)\s*[:=]\s*([\d,]+)",
    "kv_tokens": r"(?:GPU|NPU) KV cache size\s*:\s*([\d,]+)\s*tokens",
    "block_size": r"(?:attention block size to\s+([\d,]+)|\bblock_size\b['\"]?\s*[:=]\s*([\d,]+))",
}


@dataclass(frozen=True, slots=True)
class LoggedCache:
    """What a log says about the cache; None: nothing. The last line of a kind counts."""

    num_gpu_blocks: int | None
    kv_tokens: int | None
    block_size: int | None

    def blocks(self, block_size: int, groups: int = 1) -> int | None:
        """The blocks of the pool: as logged, or from the tokens, which are those of one of ``groups``.

        A number that comes from tokens may be short by up to ``groups`` - 1 blocks.
        """
        if self.num_gpu_blocks is not None:
            return self.num_gpu_blocks
        if self.kv_tokens is None:
            return None
        return self.kv_tokens // (self.block_size or block_size) * groups


def read_log(path: Path) -> LoggedCache:
    """The figures in a log of vLLM or vllm-ascend. Raises DataError where it tells no size."""
    text = read_text(path, "engine log")
    found: dict[str, int | None] = {}
    for name, pattern in _LINES.items():
        matches = list(re.finditer(pattern, text))
        digits = next(filter(None, matches[-1].groups())) if matches else None
        found[name] = None if digits is None else int(digits.replace(",", ""))
    if found["num_gpu_blocks"] is None and found["kv_tokens"] is None:
        raise DataError(
            f"engine log {path}: neither `# GPU blocks: N` nor `GPU KV cache size: N tokens` stands in it"
        )
    return LoggedCache(**found)
