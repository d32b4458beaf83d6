"""Fused attention (`npu_fused_infer_attention_score`) on Ascend 950: one call and two, as measured."""
