"""The roofline itself: how long so many operations and so many bytes take on one rank."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """One rank: operations and bytes a second at the peak, and the shares of them that are reached.

    ``overhead`` is seconds of one operator call beside its work, ``link`` bytes a second to the other ranks,
    ``link_latency`` seconds of one message.
    """

    operations: float
    bandwidth: float
    compute_efficiency: float
    memory_efficiency: float
    overhead: float
    link: float = 0.0
    link_latency: float = 0.0

    def seconds(
        self,
        operations: float,
        bytes_moved: float,
        calls: float,
        efficiency: float | None = None,
        peak: float | None = None,
    ) -> float:
        """Time of ``calls`` calls that do so much together: the slower of arithmetic and memory.

        ``efficiency`` stands in for both of the machine's own, ``peak`` for its operations a second.
        """
        compute = self.compute_efficiency if efficiency is None else efficiency
        memory = self.memory_efficiency if efficiency is None else efficiency
        rate = self.operations if peak is None else peak
        busy = max(operations / (rate * compute), bytes_moved / (self.bandwidth * memory))
        return busy + calls * self.overhead

    def all_reduce(self, bytes_moved: float, ranks: int, calls: float) -> float:
        """A ring over ``ranks``: twice (n - 1) messages of an n-th each."""
        if ranks == 1:
            return 0.0
        steps = 2 * (ranks - 1)
        return self._messages(bytes_moved * steps / ranks, calls * steps, calls)

    def exchange(self, bytes_moved: float, ranks: int, calls: float) -> float:
        """All-gather, reduce-scatter or all-to-all: all but an n-th of the bytes cross the link."""
        if ranks == 1:
            return 0.0
        return self._messages(bytes_moved * (ranks - 1) / ranks, calls * (ranks - 1), calls)

    def _messages(self, bytes_moved: float, messages: float, calls: float) -> float:
        return bytes_moved / self.link + messages * self.link_latency + calls * self.overhead
