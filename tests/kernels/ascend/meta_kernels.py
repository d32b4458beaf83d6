"""``python -m tests.kernels.ascend.meta_kernels WHEEL``: our calls through the meta kernels of torch_npu.

    pip download --no-deps torch-npu==2.10.0.post4

The schemas are read out of the wheel's library and registered, then its own Python meta kernels are executed
beside a stand-in for the package; neither CANN nor a device is needed, and the wheel is not installed. Every
attention state, one call and two, plain and INT8 caches, and the delta rules are called with meta tensors;
the shapes that come back must be those of the queries and states. Needs torch.
"""

from __future__ import annotations

import re
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from serq.kernels.operator_call import OperatorCall, TensorArgument

_SCHEMA = re.compile(rb"^(?:npu::)?[A-Za-z_][A-Za-z0-9_.]*\(.*\) ?-> ?.+$")
_STAND_INS = ("", ".utils", ".utils._error_code", ".npu", ".npu.utils", ".npu._backends")


class StandIn(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = mock.MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made


def schemas(library: bytes) -> set[str]:
    """The texts of the operators' schemas in the library."""
    texts = (match.group() for match in re.finditer(rb"[\x20-\x7e]{12,20000}", library))
    return {re.sub("^npu::", "", text.decode()) for text in texts if _SCHEMA.match(text)}


def register(wheel: Path) -> tuple[int, Any]:
    """Define the operators of the wheel and its meta kernels; their number, and what keeps them alive."""
    import torch

    with zipfile.ZipFile(wheel) as files:
        texts = schemas(files.read("torch_npu/lib/libtorch_npu.so"))
        source = files.read("torch_npu/op_plugin/meta/_meta_registrations.py").decode()
    library = torch.library.Library("npu", "DEF")
    defined = set()
    for text in sorted(texts):
        try:
            library.define(text)
            defined.add(text.split("(")[0])
        except RuntimeError:
            continue  # collectives, and forms that plain torch does not parse; none of ours
    for name in _STAND_INS:
        module = StandIn(f"torch_npu{name}")
        module.__path__ = []
        sys.modules[module.__name__] = module
    sys.modules["torch_npu.utils._error_code"].ops_error = lambda code: ""  # type: ignore[attr-defined]

    def implement(owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if getattr(owner, "ns", None) == "npu" and not {name, name.partition(".")[0]} & defined:
            return lambda function: function
        return torch.library.impl(owner, name, *args, **kwargs)

    source = source.replace("from torch.library import Library, impl", "from torch.library import Library")
    names = {"impl": implement, "__name__": "npu_meta"}
    exec(compile(source, "_meta_registrations.py", "exec"), names)
    return len(defined), (library, names)


def meta(value: Any) -> Any:
    """An argument as a meta tensor, a list of lengths as it is."""
    import torch

    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, TensorArgument):
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device="meta")
    return value


def run(call: OperatorCall) -> Any:
    """What the meta kernel returns. Length lists that are recorded as host tensors are passed as lists."""
    import torch

    from serq.kernels.measuring.tensors import LENGTH_LISTS

    keywords = {
        name: list(value.values)
        if name in LENGTH_LISTS and isinstance(value, TensorArgument) and value.values
        else meta(value)
        for name, value in call.keywords.items()
    }
    return getattr(torch.ops.npu, call.operator)(*map(meta, call.positional), **keywords)


def our_calls() -> Iterator[tuple[str, OperatorCall]]:
    """Every form in which the executor calls the operators of the wheel."""
    from tests.kernels.measuring.step_calls import STEPS, calls

    for state in STEPS:
        for split in (False, True):
            for int8 in (False, True):
                name = f"{state}{', split' if split else ''}{', int8' if int8 else ''}"
                for call in calls("attention", state, split, int8_cache=int8, dtype="bfloat16"):
                    if call.operator.startswith("npu_fused"):
                        yield name, call
        for call in calls("gdn", state, dtype="bfloat16"):
            if "gated_delta_rule" in call.operator:
                yield state, call


def expected(call: OperatorCall) -> tuple[int, ...]:
    """The shape of the output: that of the queries, or of the values."""
    name, place = ("query", 0) if "attention" in call.operator else ("value", 2)
    given = call.positional[place] if call.positional else call.argument(name)
    assert isinstance(given, TensorArgument)
    return given.shape


def main() -> int:
    """Print a line a call; the exit status is 1 if one came back otherwise than it should."""
    wheel = Path(sys.argv[1])
    count, alive = register(wheel)
    print(f"{wheel.name}: {count} operators defined")
    wrong = 0
    for name, call in our_calls():
        result = run(call)
        shape = tuple((result[0] if isinstance(result, tuple) else result).shape)
        good = shape == expected(call)
        wrong += not good
        print(f"{'ok   ' if good else 'WRONG'} {call.operator} {name}: {shape}")
    assert alive
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
