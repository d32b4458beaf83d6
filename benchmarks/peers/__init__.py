"""One adapter a peer, each in its own file."""

from __future__ import annotations

from importlib import import_module

from benchmarks.peers.base import Peer

ADAPTERS = (
    "serq_vllm", "serq_step", "serq_compiled", "pyserq_0_1_0", "pyserq_0_1_6", "dynosim", "vidur",
    "vllm_scheduler",
)  # fmt: skip


def all_peers() -> list[Peer]:
    """Every adapter's peer, ours first."""
    peers = []
    for name in ADAPTERS:
        peer: Peer = import_module(f"benchmarks.peers.{name}").PEER
        peers.append(peer)
    return peers
