"""What an adapter says about its peer. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.jobs import Job, Price


def _nothing(job: Job) -> None:
    """Of no job anything is to be said."""


@dataclass(frozen=True)
class OwnRules:
    """Where a peer does not follow vLLM: what differs, and how far results may be apart, relatively."""

    what: str
    tolerance: float


@dataclass(frozen=True)
class Peer:
    """A simulator, and how its adapter can be started.

    ``module`` is the adapter; it has a function ``run(job) -> Outcome`` that is called in a Python where
    ``probe``, a statement, succeeds. ``price`` is the price that it is given. ``refuses`` says why it cannot
    run a job, or why running it would say nothing; None: it can. ``compares`` names the outcomes that must
    agree with ours and ``tolerance`` how closely, relatively; ``like`` names the one of ours that models the
    same, where it can run the job. ``own_rules`` says of a job where the peer goes its own way.
    ``installed``: it is serq, and not that of this tree but the one that its Python has.
    """

    name: str
    module: str
    probe: str
    price: Price
    refuses: Callable[[Job], str | None] = _nothing
    compares: tuple[str, ...] = ("steps", "mean_ttft", "mean_e2e")
    tolerance: float = 1e-9
    like: str = "serq vllm"
    own_rules: Callable[[Job], OwnRules | None] = _nothing
    ours: bool = False
    installed: bool = False
