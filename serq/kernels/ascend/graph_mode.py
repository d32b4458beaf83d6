"""Graph modes and capture sizes as the NPU platform resolves them (V-072, V-073)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

LARGEST_CAPTURE = 512
A5_PIECEWISE_SIZES = 4


class DeviceFamily(Enum):
    """Ascend hardware families (V-098)."""

    A2 = "A2"
    A3 = "A3"
    A5 = "A5"
    P310 = "310P"


class GraphMode(Enum):
    """A configured graph mode: the pair of what decode batches and what mixed batches run as."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (2, 0)
    FULL_AND_PIECEWISE = (2, 1)

    @property
    def decode_mode(self) -> GraphMode:
        """What a uniform decode batch runs as."""
        return GraphMode(self.value[0]) if isinstance(self.value, tuple) else self

    @property
    def mixed_mode(self) -> GraphMode:
        """What every other batch runs as."""
        return GraphMode(self.value[1]) if isinstance(self.value, tuple) else self

    @property
    def separate_routine(self) -> bool:
        """Whether decode and mixed batches have graphs of their own."""
        return isinstance(self.value, tuple)

    @property
    def uses_piecewise(self) -> bool:
        """Whether any batch may run piecewise."""
        return GraphMode.PIECEWISE in (self.decode_mode, self.mixed_mode)

    @property
    def uses_full(self) -> bool:
        """Whether any batch may run as one full graph."""
        return GraphMode.FULL in (self.decode_mode, self.mixed_mode)


@dataclass(frozen=True, slots=True)
class GraphConfig:
    """A resolved graph configuration: the mode, whether the model is compiled, the captured token counts."""

    mode: GraphMode
    compiled: bool
    capture_sizes: tuple[int, ...]

    @property
    def max_capture_size(self) -> int:
        """The largest captured token count, 0 when nothing is captured."""
        return self.capture_sizes[-1] if self.capture_sizes else 0


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """What a deployment says about graphs; unset options take the platform's defaults (V-073)."""

    max_num_seqs: int
    max_num_batched_tokens: int = 2048
    num_speculative_tokens: int = 0
    device: DeviceFamily = DeviceFamily.A2
    mode: GraphMode | None = None
    enforce_eager: bool = False
    encoder_decoder: bool = False
    xlite_decode: bool = False
    capture_sizes: tuple[int, ...] | None = None
    max_capture_size: int | None = None
    tensor_parallel_size: int = 1
    shards_tokens: bool = False  # sequence parallelism, shared-expert DP or DSA context parallelism


def resolve_graph_config(options: GraphOptions) -> GraphConfig:
    """The graph mode and capture sizes in effect (V-072, V-073)."""
    mode = _resolve_mode(options)
    if options.enforce_eager:
        return GraphConfig(GraphMode.NONE, False, ())
    if mode is GraphMode.NONE:
        return GraphConfig(mode, True, ())
    sizes = options.capture_sizes or _default_capture_sizes(options)
    sizes = tuple(sorted(set(sizes)))
    if options.shards_tokens and options.tensor_parallel_size > 1:
        sizes = tuple(size for size in sizes if size % options.tensor_parallel_size == 0)
    if options.device is DeviceFamily.A5 and mode.uses_piecewise:
        sizes = _evenly_spaced(sizes, A5_PIECEWISE_SIZES)
    return GraphConfig(mode, True, sizes)


def _resolve_mode(options: GraphOptions) -> GraphMode:
    if options.xlite_decode:
        return GraphMode.FULL_DECODE_ONLY
    if options.encoder_decoder:
        return GraphMode.PIECEWISE
    return options.mode or GraphMode.FULL_AND_PIECEWISE


def _default_capture_sizes(options: GraphOptions) -> tuple[int, ...]:
    limit = options.max_capture_size
    if limit is None:
        limit = min(options.max_num_seqs * (1 + options.num_speculative_tokens), LARGEST_CAPTURE)
    limit = min(limit, options.max_num_batched_tokens)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, limit + 1, 16)]
    return tuple(size for size in sizes if size <= limit)


def _evenly_spaced(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """``count`` of the sizes: the first, the last, and evenly spaced ones between them."""
    if len(sizes) <= count:
        return tuple(sizes)
    step = (len(sizes) - 1) / (count - 1)
    return tuple(sizes[round(index * step)] for index in range(count))
