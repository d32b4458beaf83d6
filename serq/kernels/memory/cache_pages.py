"""The pages of a KV cache: bytes of a block over the layers that share its id (vLLM's kv_cache_utils).

A model of full-attention layers alone has one group of them all. A hybrid model has groups of equally many
layers: one page size for all, one pool of blocks, and a block belongs to one group at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from serq.kernels.roofline.shard import Shard

ASCEND_BLOCK: Final = 128
"""Blocks of vllm-ascend are multiples of this (V-079)."""

CUDA_BLOCK: Final = 16
"""Blocks of a hybrid model on CUDA are multiples of this."""

STATE_BYTES: Final = 4
"""A Gated DeltaNet state is kept in fp32 (V-095)."""

CONVOLUTION_BYTES: Final = 2
_NEARLY_EQUAL: Final = 1.25
"""Groups take the larger number of layers where it is less than this times the smaller (kv_cache_utils)."""


@dataclass(frozen=True, slots=True)
class CachePages:
    """The KV cache of one rank.

    ``token_bytes`` are keys and values of a token in one layer, ``state_bytes`` and ``convolution_bytes`` the
    state of a request in one linear layer.
    """

    shard: Shard
    cache_bytes: float = 2.0
    speculative_tokens: int = 0
    ascend: bool = True

    @property
    def token_bytes(self) -> float:
        """Keys and values of one token in one full-attention layer."""
        return 2.0 * self.shard.num_kv_heads * self.shard.model.head_dim * self.cache_bytes

    @property
    def state_bytes(self) -> int:
        """The recurrent state of a request in one linear layer."""
        model = self.shard.model
        return self.shard.gdn_value_heads * model.gdn_value_dim * model.gdn_key_dim * STATE_BYTES

    @property
    def convolution_bytes(self) -> int:
        """The window of the convolution of a request in one linear layer; drafts make it longer (V-094)."""
        model = self.shard.model
        if not model.gdn_layers:
            return 0
        rows = model.gdn_conv_width - 1 + self.speculative_tokens
        return rows * (model.gdn_conv_channels // self.shard.tensor_parallel_size) * CONVOLUTION_BYTES

    @property
    def request_state_bytes(self) -> int:
        """The state of a request over all linear layers."""
        return self.shard.model.gdn_layers * (self.state_bytes + self.convolution_bytes)

    @property
    def block_size(self) -> int:
        """Tokens of a block where the engine chooses it: as many as a state needs room for."""
        if not self.shard.model.gdn_layers:
            return ASCEND_BLOCK if self.ascend else CUDA_BLOCK
        if self.ascend:  # the keys of a block are as large as a state (V-095)
            return ASCEND_BLOCK * ceil(self.state_bytes / (ASCEND_BLOCK * self.token_bytes / 2))
        state = self.state_bytes + self.convolution_bytes
        return CUDA_BLOCK * ceil(state / (CUDA_BLOCK * self.token_bytes))

    def page_bytes(self, block_size: int) -> float:
        """Bytes of one block in one layer."""
        attention = self.token_bytes * block_size
        if not self.shard.model.gdn_layers:
            return attention
        if self.ascend:  # a page holds keys and values, or a state in place of the keys, and a window (V-095)
            return max(attention, 2.0 * self.state_bytes) + self.convolution_bytes
        return max(attention, float(self.state_bytes + self.convolution_bytes))

    @property
    def layers_per_group(self) -> int:
        """Layers that share the id of a block."""
        model = self.shard.model
        kinds = [count for count in (model.full_attention_layers, model.gdn_layers) if count]
        fewest, most = min(kinds), max(kinds)
        return most if most < _NEARLY_EQUAL * fewest else fewest

    @property
    def full_groups(self) -> int:
        """Groups of full-attention layers."""
        return ceil(self.shard.model.full_attention_layers / self.layers_per_group)

    @property
    def state_groups(self) -> int:
        """Groups of linear layers: each takes blocks of its own for a request."""
        return ceil(self.shard.model.gdn_layers / self.layers_per_group)

    def blocks_of_request(self, tokens: int, block_size: int) -> int:
        """Blocks that one request of ``tokens`` tokens holds, without prefix caching."""
        states = self.state_groups * (1 + self.speculative_tokens)
        return self.full_groups * ceil(tokens / block_size) + states
