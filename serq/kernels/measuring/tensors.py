"""From the arguments of operator calls to tensors on a device, with contents that make sense to the operator.

Every row of a step gets cache blocks and states of its own, so that nothing is read twice that a real step
would read from two places.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from serq.kernels.ascend.attention_shape import KERNEL_BLOCK_SIZE
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument

if TYPE_CHECKING:
    import torch

_NORMALISED = ("npu_recurrent_gated_delta_rule", "npu_chunk_gated_delta_rule")
"""Rules whose queries and keys come normalised."""

LENGTH_LISTS = ("actual_seq_qlen", "actual_seq_kvlen", "actual_seq_lengths_kv")
"""Arguments that are lists of integers to the operator, in whatever form they are recorded."""

_DRAWN = 2**22

_LENGTHS_KV = ("actual_seq_lengths_kv", "actual_seq_kvlen", "context_lens")


class StepTensors:
    """The tensors of the calls of one operator, on ``device``, drawn from a fixed seed."""

    def __init__(self, device: str) -> None:
        import torch

        self._device = device
        self._generator = torch.Generator(device="cpu").manual_seed(0)
        self._next_block = 0

    def call(self, call: OperatorCall) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of a call."""
        normalised = call.operator in _NORMALISED
        places = ("query", "key", "value") if normalised or "attention" in call.operator else ()
        positional = [
            self._argument(call, places[place] if place < len(places) else "", value)
            for place, value in enumerate(call.positional)
        ]
        keywords = {name: self._argument(call, name, value) for name, value in call.keywords.items()}
        return positional, keywords

    def _argument(self, call: OperatorCall, name: str, value: Argument) -> Any:
        if isinstance(value, tuple):
            return list(value)
        if isinstance(value, TensorArgument) and value.values is not None and name in LENGTH_LISTS:
            return list(value.values)  # a tensor on the device would be read back for its contents
        if not isinstance(value, TensorArgument):
            return value
        if value.values is not None:
            return self._integers(value, list(value.values))
        made = self._named(call, name, value)
        return self._random(call, name, value) if made is None else made

    # --- integers and masks -----------------------------------------------------------------------------

    def _named(self, call: OperatorCall, name: str, value: TensorArgument) -> torch.Tensor | None:
        """Tensors whose contents follow from what they mean."""
        import torch

        rows = value.shape[0] if value.shape else 0
        if name == "atten_mask":
            mask = torch.ones(value.shape, dtype=torch.int8).triu(1)
            return mask.to(self._dtype(value.dtype)).to(self._device)
        if name == "block_table":
            return self._block_table(call, value)
        if name in ("slot_mapping", "ssm_state_indices"):
            return self._integers(value, list(range(rows)))
        if name == "cache_indices_opt":
            count = 1 if len(value.shape) == 1 else value.shape[1]
            return self._integers(value, list(range(rows * count)))
        if name in {"num_accepted_tokens", "num_accepted_tokens_opt"}:
            return self._integers(value, [1] * rows)
        if name == "initial_state_mode_opt":
            return torch.ones(value.shape, dtype=torch.bool, device=self._device)
        if value.dtype in ("int64", "int32"):
            return torch.arange(rows, device=self._device).to(self._dtype(value.dtype))
        return None

    def _integers(self, value: TensorArgument, values: list[int]) -> torch.Tensor:
        import torch

        dtype = self._dtype(value.dtype)
        return torch.tensor(values, dtype=dtype, device=self._device).view(value.shape)

    def _block_table(self, call: OperatorCall, value: TensorArgument) -> torch.Tensor:
        """Blocks of their own for every row of every call; block 0 stands where a row has none."""
        rows, width = value.shape
        lengths = next(call.keywords[name] for name in _LENGTHS_KV if name in call.keywords)
        counted = lengths.values if isinstance(lengths, TensorArgument) else lengths
        assert isinstance(counted, tuple)
        block = call.keywords.get("block_size", KERNEL_BLOCK_SIZE)
        key = call.positional[1] if len(call.positional) > 1 else call.argument("key")
        key = call.argument("key_cache") if key is None else key
        assert isinstance(block, int) and isinstance(key, TensorArgument)
        blocks = max(key.shape[0] - 1, 1)
        table: list[int] = []
        for length in counted:
            used = -(-length // block)
            own = [(1 + (self._next_block + place) % blocks) % key.shape[0] for place in range(used)]
            self._next_block += used
            table += [*own, *[0] * (width - used)]
        assert len(table) == rows * width
        return self._integers(value, table)

    # --- numbers ----------------------------------------------------------------------------------------

    def _random(self, call: OperatorCall, name: str, value: TensorArgument) -> torch.Tensor:
        import torch

        dtype, shape = self._dtype(value.dtype), value.shape
        if dtype == torch.int8:
            return torch.randint(-127, 128, shape, generator=self._generator, dtype=dtype).to(self._device)
        if name == "g":
            return (-torch.rand(shape, generator=self._generator)).to(dtype).to(self._device)
        if name == "beta" or name.endswith("antiquant_scale"):
            made = torch.rand(shape, generator=self._generator)
            return (made if name == "beta" else made / 127).to(dtype).to(self._device)
        made = self._normal(shape, dtype, 1.0 if name in ("query", "key", "value") else 0.02)
        if call.operator in _NORMALISED and name in ("query", "key"):
            return torch.nn.functional.normalize(made.float(), dim=-1).to(dtype)
        return made

    def _normal(self, shape: tuple[int, ...], dtype: torch.dtype, scale: float) -> torch.Tensor:
        """Normal numbers; those of a large tensor repeat after four million."""
        import torch

        size = prod(shape)
        drawn = torch.randn(min(size, _DRAWN), generator=self._generator, dtype=torch.float32) * scale
        block = drawn.to(dtype).to(self._device)
        return block.repeat(-(-size // _DRAWN))[:size].view(shape) if size > _DRAWN else block.view(shape)

    @staticmethod
    def _dtype(name: str) -> torch.dtype:
        import torch

        found: torch.dtype = getattr(torch, name)
        return found
