"""A bench without a device: a call takes as long as its queries are wide, and every call is noted."""

from __future__ import annotations

from collections.abc import Sequence

from serq.kernels.measuring.bench import Timing, check_before
from serq.kernels.operator_call import OperatorCall


class FakeBench:
    """Times nothing twice alike: whoever asks again gets another time."""

    def __init__(self, device_name: str = "fake") -> None:
        self.device_name = device_name
        self.software = {"fake": "1"}
        self.timed: list[tuple[OperatorCall, ...]] = []

    def time(self, calls: Sequence[OperatorCall]) -> Timing:
        for call in calls:
            check_before(call)
        self.timed.append(tuple(calls))
        seconds = 1e-7 / 3 * (1 + len(self.timed)) + 1e-6 * len(calls)
        return Timing(seconds, seconds * 0.9, seconds * 1.1)
