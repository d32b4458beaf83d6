"""Timing the calls of one operator: warm-up, repeats, median. What runs a call is up to the bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from serq.kernels.ascend.fia_check import check_fused_attention
from serq.kernels.ascend.gdn_check import check_delta_rule
from serq.kernels.operator_call import OperatorCall
from serq.kernels.operator_schema import check_call
from serq.kernels.reference.calls import run_call


class Timing(NamedTuple):
    """Seconds of one operator in one layer: the median of the repeats, and their extremes."""

    seconds: float
    smallest: float
    largest: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often a call is run before it is timed, and then timed.

    ``flush_bytes`` are overwritten before every timed run, so that no run finds its tensors in the cache of
    the device; small decode shapes would look too fast (0: nothing is overwritten).
    """

    warmup: int
    repeats: int
    flush_bytes: int = 0

    def text(self) -> str:
        """In words, for the metadata of a table."""
        flushed = f", {self.flush_bytes} bytes overwritten before each" if self.flush_bytes else ""
        return f"median of {self.repeats} after {self.warmup} warm-up runs{flushed}"


class Bench(Protocol):
    """Runs and times calls on one device."""

    @property
    def device_name(self) -> str:
        """The device as its driver calls it."""

    @property
    def software(self) -> dict[str, str]:
        """Package -> version of what computes."""

    def time(self, calls: Sequence[OperatorCall]) -> Timing:
        """Seconds of the calls one after another. Raises OperatorCallError for a call that is no good."""


class TorchBench:
    """The reference operators with torch, on the CPU or on a CUDA device."""

    def __init__(self, device: str, repeats: Repeats) -> None:
        self._device = device
        self._repeats = repeats

    @property
    def device_name(self) -> str:
        """What CUDA calls the device, or the processor's architecture and its threads."""
        import platform

        import torch

        if self._device == "cuda":
            return str(torch.cuda.get_device_name())
        return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"

    @property
    def software(self) -> dict[str, str]:
        """The version of torch, with its build (``+cpu``, ``+cu126``)."""
        import torch

        return {"torch": str(torch.__version__)}

    def time(self, calls: Sequence[OperatorCall]) -> Timing:
        """Seconds by the clock of the host, or by events of the device."""
        from serq.kernels.measuring.tensors import StepTensors

        tensors = StepTensors(self._device)
        ready = []
        for call in calls:
            check_before(call, reference=True)
            ready.append((call, *tensors.call(call)))

        def run() -> None:
            for call, positional, keywords in ready:
                run_call(call, positional, keywords)

        return self._timed(run)

    def _timed(self, run: Callable[[], None]) -> Timing:
        import torch

        with torch.inference_mode():
            if self._device == "cuda":
                return timed_by_events(run, torch.cuda, self._repeats, "cuda")
            for _ in range(self._repeats.warmup):
                run()
            scratch = _scratch(self._repeats.flush_bytes, "cpu")
            times = []
            for _ in range(self._repeats.repeats):
                _overwrite(scratch)
                begin = perf_counter()
                run()
                times.append(perf_counter() - begin)
        return Timing(median(times), min(times), max(times))


def check_before(call: OperatorCall, *, reference: bool = False) -> None:
    """Everything that can be checked before a call is made; a reference also computes in float32.

    Raises OperatorCallError: the operator's own shape functions would let it pass and compute nonsense.
    """
    if call.package == "serq.dense":
        return
    check_call(call)
    if call.operator.startswith("npu_fused_infer_attention_score"):
        types = ("bfloat16", "float16", "float32") if reference else ("bfloat16", "float16")
        check_fused_attention(call, types)
    elif "gated_delta_rule" in call.operator:
        check_delta_rule(call)


def timed_by_events(run: Callable[[], None], runtime: Any, repeats: Repeats, device: str) -> Timing:
    """Times between two events on the device's stream; ``runtime`` is ``torch.cuda`` or ``torch.npu``."""
    for _ in range(repeats.warmup):
        run()
    scratch = _scratch(repeats.flush_bytes, device)
    pairs = []
    runtime.synchronize()
    for _ in range(repeats.repeats):
        _overwrite(scratch)
        pair = runtime.Event(enable_timing=True), runtime.Event(enable_timing=True)
        pair[0].record()
        run()
        pair[1].record()
        pairs.append(pair)
    runtime.synchronize()
    times = [begin.elapsed_time(end) * 1e-3 for begin, end in pairs]
    return Timing(median(times), min(times), max(times))


def _scratch(size: int, device: str) -> Any:
    import torch

    return torch.empty(size, dtype=torch.int8, device=device) if size else None


def _overwrite(scratch: Any) -> None:
    if scratch is not None:
        scratch.zero_()
