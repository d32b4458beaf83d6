"""Padding of a step: tokens for sequence parallelism, rows for the attention call's last boundary."""

from __future__ import annotations

from collections.abc import Sequence

from serq.errors import SerqError
from serq.kernels.ascend.graph_mode import GraphMode


class PaddingError(SerqError):
    """A batch whose rows cannot be padded to the given number of tokens (upstream asserts)."""


def pad_for_sequence_parallelism(num_tokens: int, tensor_parallel_size: int, enabled: bool) -> int:
    """``num_tokens`` rounded up to a multiple of the tensor parallel size when it is ``enabled`` (V-070)."""
    if not enabled:
        return num_tokens
    return -(-num_tokens // tensor_parallel_size) * tensor_parallel_size


def pad_query_start_loc(
    query_start_loc: Sequence[int],
    *,
    num_tokens_padded: int,
    num_reqs_padded: int,
    uniform_query_len: int,
    configured_mode: GraphMode,
    runtime_mode: GraphMode,
    descriptor_num_reqs: int | None,
) -> tuple[int, ...]:
    """The query boundaries with dummy requests, so that the last one equals the padded token count (V-077).

    A uniform decode batch gets rows of the uniform length up to its padded row count; any other batch gets at
    most one dummy row that ends at ``num_tokens_padded``. Raises :class:`PaddingError` when a batch that is
    not uniform has been given more rows than it has requests.
    """
    boundaries = list(query_start_loc)
    rows = len(boundaries) - 1
    ignores_descriptor = configured_mode is GraphMode.FULL and runtime_mode is GraphMode.FULL
    if descriptor_num_reqs is not None and not ignores_descriptor:
        num_reqs_padded = descriptor_num_reqs
    if configured_mode is not GraphMode.FULL and num_tokens_padded == num_reqs_padded * uniform_query_len:
        end = boundaries[-1]
        boundaries += [end + (row + 1) * uniform_query_len for row in range(num_reqs_padded - rows)]
        return tuple(boundaries)
    if num_reqs_padded != rows:
        raise PaddingError(
            f"a batch of {rows} requests that is not a uniform decode was padded to {num_reqs_padded} rows"
        )
    if boundaries[-1] < num_tokens_padded:
        boundaries.append(num_tokens_padded)
    return tuple(boundaries)
