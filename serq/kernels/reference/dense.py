"""What a layer computes around attention: products with weights, routed experts, norms, rotary embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``x`` (tokens, inputs) times ``weight`` (outputs, inputs)."""
    import torch

    return torch.nn.functional.linear(x, weight)


def embedding(tokens: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Rows of ``weight`` (vocabulary, width)."""
    import torch

    return torch.nn.functional.embedding(tokens, weight)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Root-mean-square norm over the last dimension."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The norm of a sum."""
    return rms_norm(x + residual, weight)


def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """``x`` (tokens, heads, dimension) turned by ``cos`` and ``sin`` (tokens, 1, dimension)."""
    import torch

    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """The gated activation: the first half of the columns gates the second."""
    import torch

    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def routed_experts(
    x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, counts: tuple[int, ...]
) -> torch.Tensor:
    """Gated MLPs of experts: ``counts[e]`` rows of ``x`` for expert e, one behind another.

    ``up`` (experts, 2 * width, inputs), ``down`` (experts, inputs, width).
    """
    import torch

    out = torch.empty_like(x)
    start = 0
    for expert, count in enumerate(counts):
        if count:
            rows = slice(start, start + count)
            out[rows] = linear(silu_and_mul(linear(x[rows], up[expert])), down[expert])
            start += count
    return out
