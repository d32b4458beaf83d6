"""Record what an installed, real vLLM scheduler decides, on a virtual clock.

``python -m serq.oracle.capture SCENARIO -o FILE`` writes a trace in the format that ``serq oracle check``
replays. It runs in any Python that has the supported vLLM and needs nothing else of serq's dependencies.

Real are the scheduler, its KV cache manager, the requests, the configuration and the engine core's own
turns. Scripted are the model's tokens, the drafts, the KV transfers and the time a step takes.
Follow a recording from :class:`serq.oracle.capture.driver.Driver`.
"""

from __future__ import annotations

from typing import Any

from serq.oracle.capture.installed import SUPPORTED_VLLM, VllmUnavailableError, require_vllm
from serq.oracle.capture.scenario import Scenario

__all__ = ["SUPPORTED_VLLM", "Scenario", "VllmUnavailableError", "record", "require_vllm"]

DEFAULT_MAX_STEPS = 400_000


def record(scenario: Scenario, max_steps: int = DEFAULT_MAX_STEPS) -> dict[str, Any]:
    """The trace of ``scenario`` as the installed vLLM schedules it.

    Raises VllmUnavailableError without the supported vLLM, StepLimitError after ``max_steps`` calls of
    ``schedule()``, and whatever vLLM itself raises on this scenario.
    """
    require_vllm()
    from serq.oracle.capture.driver import Driver

    return Driver(scenario, max_steps).run()
