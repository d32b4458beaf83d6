"""One operator call as data: which operator, with which argument names, shapes and length lists.

The oracle compares calls, the roofline and the table price them, torch and torch_npu execute them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Scalar = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor by its shape and element type; ``values`` are the contents of small integer tensors."""

    shape: tuple[int, ...]
    dtype: str
    values: tuple[int, ...] | None = None

    @classmethod
    def of_lengths(cls, values: tuple[int, ...], dtype: str = "int32") -> TensorArgument:
        """A one-dimensional integer tensor with these contents."""
        return cls((len(values),), dtype, values)


Argument = TensorArgument | tuple[int, ...] | Scalar


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call ``package.operator(*positional, **keywords)``.

    The same operator name exists in several packages with different schemas, so the owner is part of the
    call. A tuple of integers is a Python list of lengths, which the operator takes without a device
    synchronisation; a :class:`TensorArgument` is a tensor.
    """

    package: str
    operator: str
    positional: tuple[Argument, ...] = ()
    keywords: Mapping[str, Argument] = field(default_factory=dict)

    def argument(self, name: str, default: Argument = None) -> Argument:
        """The keyword argument ``name``, or ``default`` when the call does not pass it."""
        return self.keywords.get(name, default)
