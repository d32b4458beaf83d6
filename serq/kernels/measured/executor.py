"""A vLLM step priced from operator tables: which operators run, how often, at what size.

A step takes, in this order,

- once ``embedding``;
- per layer two ``layernorm``, ``qkv_proj``, ``qk_norm`` (Qwen3), ``rotary_emb``, ``attention``, ``o_proj``
  and an all-reduce under tensor parallelism, then ``gate_up_proj``, ``act_fn``, ``down_proj`` and another
  all-reduce, or the experts between their two collectives;
- once ``final_layernorm``, and by sequences ``lm_head`` and ``sampler``.

There is no factor and no constant beside the tables and the link. Dense operators run on the tokens of the
captured graph, attention and the per-sequence operators on what is really there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serq.errors import DataError
from serq.kernels.catalogue.models import ModelShape
from serq.kernels.executor import DecodeTotals, Evidence, OperatorPrice, OutsideRange, Price
from serq.kernels.measured.capture import CaptureSizes
from serq.kernels.measured.curve import EXTRAPOLATED, FITTED, GRADES, Curve, outside
from serq.kernels.measured.links import Link
from serq.kernels.measured.step_shape import StepShape
from serq.kernels.measured.tables import OperatorTables
from serq.kernels.step_batch import StepBatch

_MICROSECOND = 1e-6

BYTES = 2
"""Bytes of a weight, an activation and a KV value: bfloat16."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a model is spread: ``tensor`` devices an engine, ``data`` engines, experts whole or cut.

    With ``expert`` the experts are dealt out to all devices of all engines, and engines run in lock step.
    """

    tensor: int = 1
    data: int = 1
    expert: bool = False

    @property
    def experts_over(self) -> int:
        """Devices that share the experts of a layer; 1 without expert parallelism."""
        return self.tensor * self.data if self.expert else 1

    def check(self, model: ModelShape, link: Link | None) -> None:
        """Raise DataError for what the rules of composition do not cover, or a link that is not given."""
        if model.gdn_layers or model.shared_expert_intermediate_size:
            raise DataError(f"{model.name} has linear attention or shared experts, which are in no table")
        if self.expert and not model.num_experts:
            raise DataError(f"expert parallelism: {model.name} has no experts")
        if model.num_experts and self.data > 1 and not self.expert:
            raise DataError(f"{model.name} on {self.data} engines needs expert parallelism to be priced")
        if self.expert and self.tensor > 1 and self.data > 1:
            raise DataError("expert parallelism over both tensor and data parallel ranks cannot be priced")
        if model.num_experts % self.experts_over:
            raise DataError(f"{model.num_experts} experts on {self.experts_over} devices: no even shares")
        if (self.tensor > 1 or self.experts_over > 1) and link is None:
            raise DataError(
                "devices that exchange data need a link, which no table has: give its bandwidth and latency"
            )


class MeasuredExecutor:
    """Prices steps of one engine, or of engines in lock step, from operator tables."""

    def __init__(
        self,
        model: ModelShape,
        tables: OperatorTables,
        capture: CaptureSizes,
        parallelism: Parallelism | None = None,
        link: Link | None = None,
    ) -> None:
        self.model = model
        self.tables = tables
        self.parallelism = parallelism or Parallelism()
        self.parallelism.check(model, link)
        self._link = link
        self._capture = capture
        self._before: dict[int, tuple[OperatorPrice, ...]] = {}
        self._after: dict[tuple[int, int, int], tuple[OperatorPrice, ...]] = {}
        self._last: dict[tuple[int, int], tuple[OperatorPrice, ...]] = {}

    # ---- prices ---------------------------------------------------------------------------------------

    def price(self, batch: StepBatch) -> Price:
        """What a step costs; engines in lock step with this one, if there are any, run one like it."""
        return self.price_shape(StepShape.of(batch))

    def price_decodes(self, totals: DecodeTotals) -> Price:
        """What a step of decodes alone costs: the look-ups need sum and extremes of their contexts only."""
        return self.price_shape(StepShape.of_decodes(totals))

    def price_shape(self, shape: StepShape) -> Price:
        """What a step of this shape costs."""
        engines = self.parallelism.data if self.model.num_experts else 1
        return self.price_ranks([shape] * engines)

    def price_ranks(self, shapes: Sequence[StepShape | None]) -> Price:
        """What a step of engines in lock step costs: the price of the slowest of them.

        None stands for an engine that has nothing to do and computes one dummy token so that the experts
        can be exchanged. If all engines fit a captured graph, all compute the largest graph's tokens.
        Raises ValueError where no engine has anything to do.
        """
        tokens = [1 if shape is None else shape.tokens for shape in shapes]
        if all(map(self._capture.captured, tokens)):
            tokens = [self._capture.pad(max(tokens))] * len(tokens)
        total, largest = sum(tokens), max(tokens)
        prices = [
            Price.of(
                (
                    *self._before_attention(own),
                    self._attention(shape),
                    *self._after_attention(own, total, largest),
                    *self._last_operators(own, shape.sequences),
                )
            )
            for own, shape in zip(tokens, shapes, strict=True)
            if shape is not None
        ]
        return max(prices, key=lambda price: price.seconds)

    # ---- operators --------------------------------------------------------------------------------------

    def _dense(self, name: str, tokens: int, calls: float) -> OperatorPrice:
        return self._look_up(self.tables.dense[name], name, ("tokens", tokens), calls)

    @staticmethod
    def _look_up(curve: Curve, name: str, at: tuple[str, int], calls: float) -> OperatorPrice:
        dimension, value = at
        time, grade = curve.at(value)
        beyond = outside(dimension, curve.axis, value) if grade == EXTRAPOLATED else ()
        return OperatorPrice(name, time * calls * _MICROSECOND, GRADES[grade], beyond)

    def _before_attention(self, tokens: int) -> tuple[OperatorPrice, ...]:
        """Everything up to attention.

        ``qk_norm`` is the mean of the call for queries and the call for keys, timed with the heads of the
        whole model: two calls, on a share of the heads.
        """
        known = self._before.get(tokens)
        if known is None:
            layers = self.model.num_layers
            operators = [
                self._dense("embedding", tokens, 1),
                self._dense("layernorm", tokens, 2 * layers),
                self._dense("qkv_proj", tokens, layers),
                self._dense("rotary_emb", tokens, layers),
            ]
            if self.model.qk_norm:
                calls = 2 * layers / self.parallelism.tensor
                operators.insert(3, self._dense("qk_norm", tokens, calls))
            known = self._before[tokens] = tuple(operators)
        return known

    def _attention(self, shape: StepShape) -> OperatorPrice:
        """Attention, at the mean context of the decodes, and more where their contexts differ."""
        grid = self.tables.attention
        mean = shape.context / shape.decoders if shape.decoders else 0.0
        reach = mean
        time, grade = grid.at(shape.chunk, shape.history, shape.decoders, mean)
        skew = self.tables.skew
        if skew is not None and shape.smallest < shape.largest:
            longest, seen = grid.at(shape.chunk, shape.history, shape.decoders, shape.largest)
            if longest > time:
                alpha = skew.alpha(
                    shape.chunk, shape.history, shape.decoders, mean, (shape.smallest, shape.largest)
                )
                time = max(time + alpha * (longest - time), 0.0)
                grade = max(grade, seen, FITTED)
                if seen == EXTRAPOLATED:
                    reach = shape.largest
        beyond: tuple[OutsideRange, ...] = ()
        if grade == EXTRAPOLATED:
            beyond = grid.outside(shape.chunk, shape.history, shape.decoders, reach)
        seconds = time * self.model.num_layers * _MICROSECOND
        return OperatorPrice("attention", seconds, GRADES[grade], beyond)

    def _after_attention(self, own: int, total: int, largest: int) -> tuple[OperatorPrice, ...]:
        """From the output projection to the end of the layers; ``own`` tokens of ``total`` in the group."""
        key = own, total, largest
        known = self._after.get(key)
        if known is None:
            operators = [self._dense("o_proj", own, self.model.num_layers), *self._all_reduce(own, 1)]
            if self.tables.experts is None:
                operators += [
                    self._dense(name, own, self.model.num_layers)
                    for name in ("gate_up_proj", "act_fn", "down_proj")
                ]
                operators += self._all_reduce(own, 2)
            else:
                operators += self._experts(own, total, largest)
            known = self._after[key] = tuple(operators)
        return known

    def _all_reduce(self, tokens: int, number: int) -> list[OperatorPrice]:
        """One of the two sums over tensor-parallel devices in a layer."""
        if self.parallelism.tensor == 1:
            return []
        assert self._link is not None
        size = tokens * self.model.hidden_size * BYTES
        seconds = self._link.all_reduce(size, self.parallelism.tensor) * self.model.num_layers
        return [OperatorPrice(f"all_reduce_{number}", seconds, Evidence.ASSUMED)]

    def _experts(self, own: int, total: int, largest: int) -> list[OperatorPrice]:
        """The experts of a layer, and under expert parallelism the exchange around them.

        A device computes its own experts for the tokens of all, ``total / devices`` tokens' worth of pairs,
        and activates as many experts as it has pairs, at most those that it holds.
        """
        assert self.tables.experts is not None
        model, devices = self.model, self.parallelism.experts_over
        share = total / devices
        activated = min(model.experts_per_token * share, model.num_experts / devices)
        time, grade = self.tables.experts.at(share, activated)
        beyond = outside("tokens", self.tables.experts.tokens, share) if grade == EXTRAPOLATED else ()
        experts = OperatorPrice("moe", time * model.num_layers * _MICROSECOND, GRADES[grade], beyond)
        if self.parallelism.data == 1:
            return [experts, *self._all_reduce(own, 2)]
        assert self._link is not None
        gathered = largest * (model.hidden_size + model.num_experts) * BYTES
        scattered = largest * model.hidden_size * BYTES
        return [
            OperatorPrice(
                "all_gather", self._link.exchange(gathered, devices) * model.num_layers, Evidence.ASSUMED
            ),
            experts,
            OperatorPrice(
                "reduce_scatter", self._link.exchange(scattered, devices) * model.num_layers, Evidence.ASSUMED
            ),
        ]

    def _last_operators(self, tokens: int, sequences: int) -> tuple[OperatorPrice, ...]:
        """What runs once after the layers."""
        key = tokens, sequences
        known = self._last.get(key)
        if known is None:
            known = self._last[key] = (
                self._dense("final_layernorm", tokens, 1),
                self._look_up(self.tables.per_sequence["lm_head"], "lm_head", ("scheduled", sequences), 1),
                self._look_up(self.tables.per_sequence["sampler"], "sampler", ("scheduled", sequences), 1),
            )
        return known
