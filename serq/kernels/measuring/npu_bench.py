"""The real operators on an Ascend NPU, through torch_npu and vllm-ascend.

Written from schemas, recorded calls and documents: **it has not been run on hardware**. What could be checked
without: every call it makes is built by the code that the recordings of vllm-ascend check, fits the schema
of its operator, and meets the operator's own conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from serq.errors import RunError
from serq.kernels.measuring.bench import Repeats, Timing, check_before, timed_by_events
from serq.kernels.operator_call import OperatorCall
from serq.kernels.operator_schema import OperatorCallError
from serq.kernels.reference.calls import run_call

NOT_RUN = "written from schemas and recorded calls; this executor has not been run on hardware"

Operator = Callable[..., Any]


class NpuBench:
    """Runs calls on the current NPU and times them by its events."""

    def __init__(self, repeats: Repeats) -> None:
        """Raises RunError where torch_npu is not installed or finds no device."""
        self._repeats = repeats
        try:
            self._torch_npu = import_module("torch_npu")
        except ImportError as error:
            raise RunError(
                f"a `torch_npu` executor needs torch_npu and CANN ({error}): pip install 'serq[npu]' on the "
                "machine with the NPU",
                code="executor-options",
            ) from None
        import torch

        self._npu: Any = getattr(torch, "npu", None)
        if self._npu is None or not self._npu.is_available():
            raise RunError("torch_npu finds no NPU", code="executor-options")

    @property
    def device_name(self) -> str:
        """The SoC as the driver calls it."""
        return str(self._npu.get_device_name())

    @property
    def software(self) -> dict[str, str]:
        """Versions of torch, torch_npu and, where it says so, CANN."""
        import torch

        found = {"torch": str(torch.__version__), "torch_npu": str(self._torch_npu.__version__)}
        cann = getattr(getattr(torch, "version", None), "cann", None)
        return {**found, "cann": str(cann)} if cann else found

    def time(self, calls: Sequence[OperatorCall]) -> Timing:
        """Seconds of the calls one after another. Raises OperatorCallError for a call that is no good."""
        import torch

        from serq.kernels.measuring.tensors import StepTensors

        tensors = StepTensors("npu")
        ready = []
        for call in calls:
            check_before(call)
            ready.append((self.operator(call), *tensors.call(call)))
        with torch.inference_mode():
            for (run, positional, keywords), call in zip(ready, calls, strict=True):
                _check_output(call, run(*positional, **keywords), positional, keywords)

            def all_calls() -> None:
                for run, positional, keywords in ready:
                    run(*positional, **keywords)

            return timed_by_events(all_calls, self._npu, self._repeats, "npu")

    def operator(self, call: OperatorCall) -> Operator:
        """What to call; raises OperatorCallError where the installed packages lack it."""
        import torch

        if call.package == "serq.dense":
            return lambda *arguments: run_call(call, arguments, {})
        owners: list[tuple[str, Any]] = []
        if call.package == "torch_npu":
            owners = [("torch.ops.npu", torch.ops.npu), ("torch_npu", self._torch_npu)]
        elif call.package == "_C_ascend":
            _load_vllm_ascend()
            owners = [("torch.ops._C_ascend", torch.ops._C_ascend)]
        for _, owner in owners:
            found: Operator | None = getattr(owner, call.operator, None)
            if found is not None:
                return found
        names = " or ".join(f"{name}.{call.operator}" for name, _ in owners) or f"{call.package} operators"
        raise OperatorCallError(f"the installed packages have no {names}")


def _load_vllm_ascend() -> None:
    """vllm-ascend's extension registers its operators when it is imported; without it there are none."""
    try:
        import_module("vllm_ascend.vllm_ascend_C")
    except ImportError as error:
        raise OperatorCallError(f"Gated DeltaNet decodes need vllm-ascend's operators: {error}") from None


def _check_output(call: OperatorCall, result: Any, positional: list[Any], keywords: dict[str, Any]) -> None:
    """The attention output has the shape of the queries: the operator's shape function may say otherwise."""
    if not call.operator.startswith("npu_fused_infer_attention_score"):
        return
    query = positional[0] if positional else keywords["query"]
    if tuple(result[0].shape) != tuple(query.shape):
        raise OperatorCallError(
            f"{call.operator} returned {tuple(result[0].shape)} for queries {tuple(query.shape)}"
        )
