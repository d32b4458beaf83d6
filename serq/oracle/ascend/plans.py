"""Replays of recorded predictions and plans: profiling chunks and DyntraLB."""

from __future__ import annotations

from typing import Any

from serq.runtime.ascend.balance_plan import RankLoad, balance_plan
from serq.runtime.ascend.chunk_predictor import ChunkPredictor, ProfilingChunkConfig

Document = dict[str, Any]


def replay_balance_load(document: Document) -> list[Any]:
    """Kind ``balance_load``: what each rank pauses and admits."""
    rows = []
    for case in document["cases"]:
        ranks = [RankLoad.of_slots(blocks, running) for blocks, running in case["ranks"]]
        limit = case.get("max_num_seqs")
        if limit is None:
            limit = max(len(blocks) for blocks, _ in case["ranks"])
        plan = balance_plan(ranks, max_num_seqs=limit, bubble_threshold=case["threshold"])
        rows.append(
            [
                {"out_blk": list(step.out_blocks), "in_blk": list(step.in_blocks), "freeze": step.freeze}
                for step in plan
            ]
        )
    return rows


def replay_chunk(document: Document) -> Document:
    """Kind ``chunk``: fits, predictions and records of a profiling-chunk predictor."""
    config = document["config"]
    options = ProfilingChunkConfig(
        smooth_factor=config.get("smooth", 1.0),
        min_chunk=config["min_chunk"],
        max_fit_chunk=config.get("max_fit_chunk", 30),
    )
    predictor = ChunkPredictor(config["base"], config["page"], options)
    return {"results": [_perform(predictor, operation) for operation in document["ops"]]}


def _perform(predictor: ChunkPredictor, operation: Document) -> Any:
    match operation["op"]:
        case "fit":
            return predictor.fit(operation["lens"], operation["ms"])
        case "predict":
            return predictor.predict_chunk_size(operation["computed"], operation.get("target", 0))
        case "time":
            return round(predictor.predict_time(operation["new"], operation["computed"]), 9)
        case "record":
            predictor.record([(new, computed) for new, computed in operation["chunks"]], operation["s"])
        case "target":
            predictor.set_target(operation["ms"])
        case "coeffs":
            return _coefficients(predictor)
    return None


def _coefficients(predictor: ChunkPredictor) -> list[Any]:
    profile, history = predictor.profile, predictor.history
    fitted = (profile.a, profile.b, profile.c, history.a, history.b, history.c)
    state = [predictor.target_ms, predictor.uses_history, predictor.history_complete]
    return [round(value, 12) for value in fitted] + state
