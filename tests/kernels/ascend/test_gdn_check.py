"""Conditions of the delta-rule operators that their schemas do not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serq.kernels.ascend.gdn import GatedDeltaNetBatch, GatedDeltaNetShape, gated_delta_net_calls
from serq.kernels.ascend.gdn_check import check_delta_rule
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError

SHAPE = GatedDeltaNetShape(16, 32, num_states=9, num_speculative_tokens=2)
BATCH = GatedDeltaNetBatch(decodes=2, prefill_lens=(70, 9), spec_rows=0)


def rules(
    batch: GatedDeltaNetBatch = BATCH, shape: GatedDeltaNetShape = SHAPE, fused: bool = True
) -> list[OperatorCall]:
    calls = gated_delta_net_calls(batch, shape, fused_chunk=fused)
    return [call for call in calls if "gated_delta_rule" in call.operator]


def test_what_the_layouts_call_is_good() -> None:
    for fused in (True, False):
        for call in rules(fused=fused) + rules(GatedDeltaNetBatch(spec_rows=3), fused=fused):
            check_delta_rule(call)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        (replace(SHAPE, num_v_heads=24), "24 value heads for 16"),
        (replace(SHAPE, head_v_dim=256), "32 heads of 256; up to 64 of 128"),
        (replace(SHAPE, num_v_heads=80), "80 heads of 128; up to 64 of 128"),
    ],
)
def test_shapes_beyond_the_chunked_operator(shape: GatedDeltaNetShape, complaint: str) -> None:
    with pytest.raises(OperatorCallError, match=complaint):
        check_delta_rule(rules(shape=shape)[-1])


@pytest.mark.parametrize(
    ("lengths", "complaint"),
    [((0, 9), "a row of 9 tokens"), ((0, 1), "2 tokens, lengths of 1"), ((), "needs the lengths")],
)
def test_lengths_that_do_not_fit(lengths: tuple[int, ...], complaint: str) -> None:
    recurrent = rules()[0]
    broken = {**recurrent.keywords, "actual_seq_lengths": TensorArgument.of_lengths(lengths)}
    with pytest.raises(OperatorCallError, match=complaint):
        check_delta_rule(replace(recurrent, keywords=broken))
