"""The engine's loop: turns, overlap, idleness, aborts (S-007, S-103, S-140)."""

from __future__ import annotations

from serq.runtime.vllm.config import KVTransferConfig
from serq.runtime.vllm.engine_core import (
    AbortRequest,
    EngineObserver,
    Idle,
    IdleReason,
    Launch,
    ResetPrefixCache,
    WaitUntil,
)
from serq.runtime.vllm.request import Request, RequestStatus, Time
from tests.runtime.vllm.harness import Harness

FLAGS = {"max_num_batched_tokens": 16, "max_num_seqs": 4, "max_model_len": 64, "num_gpu_blocks": 32}


def test_synchronous_turns_alternate() -> None:
    engine = Harness(**FLAGS)
    assert engine.core.turn(0) == Idle(IdleReason.NO_REQUESTS)
    engine.add("A", 4, 2)
    first = engine.core.turn(1)
    assert isinstance(first, Launch)
    assert engine.core.turn(2) == WaitUntil(first.step)
    engine.finish()
    assert isinstance(engine.core.turn(3), Launch)


def test_two_steps_are_launched_at_once_then_one_per_output() -> None:
    engine = Harness(**FLAGS, async_scheduling=True)
    engine.add("A", 4, 4)
    first, second = engine.core.turn(0), engine.core.turn(0)
    assert isinstance(first, Launch)
    assert isinstance(second, Launch)
    assert [share.num_computed_tokens for share in second.step.scheduled.values()] == [4]
    assert engine.core.turn(0) == WaitUntil(first.step)
    engine.finish()
    assert isinstance(engine.core.turn(5), Launch)


def test_a_foreseen_end_gets_no_share_and_an_unforeseen_one_wastes_one() -> None:
    """S-021, S-103b: A ends by length, B by a stop token; both say two tokens."""
    for fields, shares in (({"max_tokens": 2}, 2), ({"end_at": 1}, 3)):
        engine = Harness(**FLAGS, async_scheduling=True)
        request = engine.add("A", 4, **fields)
        launched = 0
        while not isinstance(turn := engine.core.turn(engine.now), Idle):
            if isinstance(turn, Launch):
                launched += "A" in turn.step.scheduled
            else:
                engine.finish()
        assert (request.num_output_tokens, launched) == (2, shares)


def test_an_abort_during_a_step_goes_before_its_output() -> None:
    engine = Harness(**FLAGS)
    request = engine.add("A", 4)
    engine.launch()
    engine.core.intake([AbortRequest("A")])
    assert engine.finish() == []
    assert (request.status, request.num_output_tokens) == (RequestStatus.FINISHED_ABORTED, 0)


def test_messages_keep_their_order() -> None:
    engine = Harness(**FLAGS)
    engine.core.intake([AbortRequest("A")])
    request = engine.add("A", 4)
    engine.launch()
    assert request.status is RequestStatus.RUNNING


class Ear(EngineObserver):
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def aborted(self, request: Request, now: Time) -> None:
        self.heard.append((request.request_id, now))

    def reset(self, succeeded: bool, preempted: list[Request], now: Time) -> None:
        self.heard.append((succeeded, [request.request_id for request in preempted], now))


def test_the_observer_hears_of_aborts_and_resets() -> None:
    engine = Harness(**FLAGS)
    engine.core.observer = ear = Ear()
    engine.add("A", 4)
    engine.step()
    engine.core.intake([ResetPrefixCache(), ResetPrefixCache(True), AbortRequest("A"), AbortRequest("B")])
    engine.core.turn(9)
    assert ear.heard == [(False, [], 9), (True, ["A"], 9), ("A", 9)]


def test_a_request_that_can_never_fit_blocks_the_engine() -> None:
    engine = Harness(**{**FLAGS, "num_gpu_blocks": 3, "max_model_len": 64})
    engine.add("A", 40)
    assert engine.step() == {}
    assert engine.core.turn(5) == Idle(IdleReason.BLOCKED)
    engine.core.wake()
    assert isinstance(engine.core.turn(6), Launch)


class Undecided:
    """A connector that never knows."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[None, bool]:
        return None, False

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        raise AssertionError

    def request_finished(self, request: Request) -> bool:
        return False


def test_an_undecided_connector_wants_to_be_asked_again() -> None:
    engine = Harness(**FLAGS, connector=Undecided(), kv_transfer=KVTransferConfig())
    engine.add("A", 4)
    assert engine.step() == {}
    assert engine.core.turn(5) == Idle(IdleReason.UNDECIDED)
    assert engine.names(engine.scheduler.skipped_waiting) == ["A"]


class Loads:
    """A connector that loads 16 tokens beside the engine, and keeps blocks until they are sent."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int, bool]:
        return 16, True

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        pass

    def request_finished(self, request: Request) -> bool:
        return True


def test_a_load_parks_the_request_and_a_send_keeps_its_blocks() -> None:
    engine = Harness(**FLAGS, connector=Loads(), kv_transfer=KVTransferConfig())
    request = engine.add("A", 20, 1)
    assert engine.step() == {}
    assert request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
    assert engine.blocks("A") == [1]
    engine.core.wake()
    assert engine.step(finished_recving=["A"]) == {}
    assert engine.step() == {"A": 4}
    assert request.status is RequestStatus.FINISHED_LENGTH_CAPPED
    assert engine.blocks("A") == [1, 2]
    assert engine.scheduler.has_requests
    assert engine.step(finished_sending=["A"]) == {}
    assert len(engine.free) == 31
