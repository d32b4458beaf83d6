"""Where upstream's own code would raise: our model raises there too, and says what upstream says."""

from __future__ import annotations

from serq.errors import RunError


class UpstreamCrashError(RunError):
    """vllm-ascend would die here with an exception of type ``upstream_type`` and ``upstream_message``."""

    def __init__(self, upstream_type: str, upstream_message: str, why: str) -> None:
        self.upstream_type = upstream_type
        self.upstream_message = upstream_message
        said = f": {upstream_message}" if upstream_message else ""
        message = f"the engine dies, as vllm-ascend would ({upstream_type}{said}). {why}"
        super().__init__(message, code="upstream-defect")

    def at(self, engine: str) -> UpstreamCrashError:
        """The same, naming the engine that dies."""
        self.message = f"`{engine}`: {self.message}"
        return self
