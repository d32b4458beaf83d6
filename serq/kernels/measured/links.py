"""What a collective between devices costs on a link of a given bandwidth and latency: a user's input.

Nothing in the operator tables measures a link. A ring collective takes a latency a phase: an all-reduce has
two (reduce-scatter, then all-gather), the others one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A link between the devices of one engine or group.

    ``bandwidth`` in bytes a second, ``latency`` in seconds a ring phase. ``expert_bytes`` is the share of
    their bytes that the collectives of expert parallelism are charged with; 1 where nobody says otherwise.
    """

    bandwidth: float
    latency: float
    expert_bytes: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError for a link that no bytes pass or that is paid for less than nothing."""
        if not self.bandwidth > 0:
            raise ValueError(f"a link passes more than 0 bytes a second, not {self.bandwidth:g}")
        if self.latency < 0 or self.expert_bytes < 0:
            raise ValueError("the latency of a link and its share of bytes must not be negative")

    def all_reduce(self, size: float, devices: int) -> float:
        """Seconds to sum ``size`` bytes over ``devices``, two phases of (n - 1) / n of them."""
        return 2 * ((devices - 1) / devices * size / self.bandwidth + self.latency)

    def exchange(self, largest: float, devices: int) -> float:
        """Seconds of an all-gather or a reduce-scatter around the experts, ``largest`` bytes a device.

        A device passes on the pieces of all others; pieces differ, and the largest holds up the ring.
        """
        return (devices - 1) * largest * self.expert_bytes / self.bandwidth + self.latency
