"""What the delta-rule operators need and their schemas do not say (facts: section 2.1)."""

from __future__ import annotations

from serq.kernels.ascend.gdn import LONGEST_RECURRENT_QUERY
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError

_LARGEST_RECURRENT = 256
_LARGEST_CHUNKED = 128
_MOST_CHUNKED_HEADS = 64


def check_delta_rule(call: OperatorCall) -> None:
    """Raises :class:`OperatorCallError` for a recurrent or chunked call beyond what the operator computes.

    Whole groups of value heads a key head; lengths that add up to the tokens; recurrent rows of at most 8
    tokens, heads and dimensions up to 256; chunked up to 64 heads of 128.
    """
    names = ("query", "key", "value") if call.package != "triton" else ("q", "k", "v")
    query, key, value = (
        call.positional[place] if place < len(call.positional) else call.argument(name)
        for place, name in enumerate(names)
    )
    if not all(isinstance(part, TensorArgument) for part in (query, key, value)):
        raise _error(call, "query, key and value must be tensors")
    assert isinstance(query, TensorArgument) and isinstance(value, TensorArgument)
    if query != key:
        raise _error(call, "queries and keys of different shapes or types")
    (tokens, key_heads, key_dim), (value_heads, value_dim) = query.shape[-3:], value.shape[-2:]
    if value_heads % key_heads:
        raise _error(call, f"{value_heads} value heads for {key_heads} key heads")
    recurrent = call.operator == "npu_recurrent_gated_delta_rule"
    dimension = _LARGEST_RECURRENT if recurrent else _LARGEST_CHUNKED
    heads = _LARGEST_RECURRENT if recurrent else _MOST_CHUNKED_HEADS
    if max(key_dim, value_dim) > dimension or value_heads > heads:
        raise _error(call, f"{value_heads} heads of {max(key_dim, value_dim)}; up to {heads} of {dimension}")
    _check_lengths(call, tokens, recurrent)


def _check_lengths(call: OperatorCall, tokens: int, recurrent: bool) -> None:
    given = call.argument("cu_seqlens") if call.package == "triton" else call.argument("actual_seq_lengths")
    lengths = given.values if isinstance(given, TensorArgument) else None
    if not lengths:
        raise _error(call, "needs the lengths of its rows")
    if call.package == "triton":
        total = lengths[-1]
    else:
        total = sum(lengths)
        if recurrent and max(lengths) > LONGEST_RECURRENT_QUERY:
            raise _error(call, f"a row of {max(lengths)} tokens; at most {LONGEST_RECURRENT_QUERY}")
    if total != tokens:
        raise _error(call, f"{tokens} tokens, lengths of {total}")


def _error(call: OperatorCall, what: str) -> OperatorCallError:
    return OperatorCallError(f"{call.operator} would not compute the rule: {what}")
