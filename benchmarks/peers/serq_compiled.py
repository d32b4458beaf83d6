"""serq as a compiled wheel, installed in a Python of its own: what `serq vllm` runs, to the last bit."""

from __future__ import annotations

from benchmarks.jobs import AFFINE
from benchmarks.peers.base import Peer
from benchmarks.peers.serq_vllm import run

__all__ = ["PEER", "run"]

PEER = Peer(
    "serq compiled",
    __name__,
    "from serq.compiled import is_compiled; assert is_compiled()",
    AFFINE,
    tolerance=0.0,
    installed=True,
)
