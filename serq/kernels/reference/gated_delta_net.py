"""Gated DeltaNet: the causal convolution and the delta rule, token by token and in chunks.

The rule of Yang, Kautz and Hatamizadeh (arXiv 2412.06464). With decay ``e^g``, strength ``beta`` and a state
S of (Dv, Dk) a value head: ``S <- e^g S; u = beta (v - S k); S <- S + u k^T; o = scale S q``. The chunked
form solves the same recurrence for up to 64 tokens at once. Inner sums are in float32, or in the type of the
state where that is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CHUNK = 64


def causal_conv1d(
    output: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    conv_state: torch.Tensor,
    query_start_loc_opt: torch.Tensor,
    cache_indices_opt: torch.Tensor,
    bias_opt: torch.Tensor | None = None,
    initial_state_mode_opt: torch.Tensor | None = None,
    num_accepted_tokens_opt: torch.Tensor | None = None,
    activation_mode: int = 1,
    **_: Any,
) -> None:
    """vllm-ascend's ``npu_causal_conv1d_custom``: a depthwise convolution over every request's tokens.

    ``x`` (tokens, channels), ``weight`` (width, channels), ``conv_state`` (slots, width - 1 + drafts,
    channels). A window starts from zeros where ``initial_state_mode`` is False, and behind rejected drafts
    at ``num_accepted_tokens - 1``.
    """
    import torch

    width = weight.shape[0]
    starts = query_start_loc_opt.tolist()
    slots = (cache_indices_opt[:, 0] if cache_indices_opt.dim() == 2 else cache_indices_opt).tolist()
    fresh = None if initial_state_mode_opt is None else initial_state_mode_opt.tolist()
    accepted = None if num_accepted_tokens_opt is None else num_accepted_tokens_opt.tolist()
    for row, slot in enumerate(slots):
        tokens = x[starts[row] : starts[row + 1]]
        first = 0 if accepted is None else accepted[row] - 1
        history = conv_state[slot, first : first + width - 1].to(x.dtype)
        if fresh is not None and not fresh[row]:
            history = torch.zeros_like(history)
        window = torch.cat((history, tokens))
        found = (window.unfold(0, width, 1) * weight.T.to(x.dtype)).sum(-1)
        if bias_opt is not None:
            found = found + bias_opt
        output[starts[row] : starts[row + 1]] = torch.nn.functional.silu(found) if activation_mode else found
        kept = min(conv_state.shape[1], window.shape[0])
        conv_state[slot, conv_state.shape[1] - kept :] = window[-kept:].to(conv_state.dtype)


def recurrent_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    state: torch.Tensor,
    *,
    beta: torch.Tensor,
    g: torch.Tensor,
    scale: float,
    lengths: Sequence[int],
    slots: Sequence[int],
    accepted: Sequence[int] | None = None,
) -> torch.Tensor:
    """The rule token by token, rows side by side; ``state`` (slots, Nv, Dv, Dk) is updated in place.

    ``slots`` has the state slot of every token: what a token leaves is written there, and a row begins with
    the slot of its last accepted token. Returns (tokens, Nv, Dv).
    """
    import torch

    inner = torch.promote_types(state.dtype, torch.float32)
    repeat = value.shape[1] // key.shape[1]
    q, k = (part.to(inner).repeat_interleave(repeat, 1) for part in (query, key))
    v, b, decay = value.to(inner), beta.to(inner), g.to(inner).exp()
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    begun = [0] * len(lengths) if accepted is None else [count - 1 for count in accepted]
    device = value.device
    places = torch.tensor(list(slots), device=device)
    first = torch.tensor(starts[:-1], device=device)
    current = state[places[first + torch.tensor(begun, device=device)]].to(inner)
    out = torch.empty_like(value)
    for step in range(max(lengths)):
        rows = torch.tensor([row for row, length in enumerate(lengths) if step < length], device=device)
        token = first[rows] + step
        s = current[rows] * decay[token][:, :, None, None]
        u = b[token][:, :, None] * (v[token] - (s @ k[token][..., None])[..., 0])
        s = s + u[..., None] * k[token][:, :, None, :]
        current[rows] = s
        out[token] = (scale * (s @ q[token][..., None])[..., 0]).to(out.dtype)
        state[places[token]] = s.to(state.dtype)
    return out


def chunked_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    beta: torch.Tensor,
    g: torch.Tensor,
    scale: float,
    initial_state: torch.Tensor,
    lengths: Sequence[int],
    chunk: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule in chunks of tokens, row after row: outputs (tokens, Nv, Dv) and final states.

    ``initial_state`` (rows, Nv, Dv, Dk) is left as it is.
    """
    import torch

    inner = torch.promote_types(initial_state.dtype, torch.float32)
    repeat = value.shape[1] // key.shape[1]
    q, k = (part.to(inner).repeat_interleave(repeat, 1).transpose(0, 1) for part in (query, key))
    v, b, gate = value.to(inner).transpose(0, 1), beta.to(inner).T, g.to(inner).T
    out = torch.empty_like(value)
    final = torch.empty_like(initial_state)
    start = 0
    for row, length in enumerate(lengths):
        s = initial_state[row].to(inner)
        for begin in range(start, start + length, chunk):
            part = slice(begin, min(begin + chunk, start + length))
            found, s = _chunk(q[:, part], k[:, part], v[:, part], b[:, part], gate[:, part], s, scale)
            out[part] = found.transpose(0, 1).to(out.dtype)
        final[row] = s.to(final.dtype)
        start += length
    return out, final


def _chunk(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    g: torch.Tensor,
    state: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One chunk of a row, heads first: outputs and the state behind it.

    ``A = lower(beta (k k') D)``, ``T = (I + A)^-1``, ``W = T (beta e^G k)``, ``U = T (beta v)``,
    ``V = U - W S'``; ``D`` is the decay between two tokens.
    """
    import torch

    count = q.shape[1]
    total = g.cumsum(-1)
    decay = (total[:, :, None] - total[:, None, :]).clamp(max=0).exp()
    lower = torch.ones(count, count, dtype=torch.bool, device=q.device).tril()
    strict = (beta[:, :, None] * (k @ k.transpose(1, 2)) * decay).masked_fill(~lower.tril(-1), 0)
    one = torch.eye(count, dtype=q.dtype, device=q.device)
    right = torch.cat((beta[:, :, None] * total.exp()[:, :, None] * k, beta[:, :, None] * v), -1)
    solved = torch.linalg.solve_triangular(one + strict, right, upper=False, unitriangular=True)
    w, u = solved.split((k.shape[-1], v.shape[-1]), -1)
    corrected = u - w @ state.transpose(1, 2)
    within = ((q @ k.transpose(1, 2)) * decay).masked_fill(~lower, 0)
    out = scale * (total.exp()[:, :, None] * (q @ state.transpose(1, 2)) + within @ corrected)
    left = (total[:, -1:] - total).exp()[:, :, None]
    behind = total[:, -1, None, None].exp() * state + corrected.transpose(1, 2) @ (left * k)
    return out, behind
