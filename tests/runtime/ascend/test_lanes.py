"""The ShortRequestFirst lanes (V-001 to V-018)."""

import pytest

from serq.runtime.ascend.short_request_first import (
    ShortRequestFirstConfig,
    ShortRequestFirstRequestQueue,
    install_short_request_first,
)
from serq.runtime.vllm.request import RequestStatus
from serq.runtime.vllm.scheduler import VllmScheduler
from tests.runtime.ascend.ascend_requests import engine, names, request


class Lanes:
    """A queue at a time that the test sets, in milliseconds."""

    def __init__(self, threshold: int = 100, wait: float = 5.0) -> None:
        self.ms = 0.0
        config = ShortRequestFirstConfig(threshold, wait)
        self.queue = ShortRequestFirstRequestQueue(config, lambda: self.ms / 1000)

    def add(self, *requests: tuple[str, int]) -> None:
        for name, prompt in requests:
            self.queue.add_request(request(name, prompt))

    def pop_all(self) -> list[str]:
        return [self.queue.pop_request().request_id for _ in range(len(self.queue))]


def test_equality_is_short_and_order_is_kept_within_lanes() -> None:
    lanes = Lanes()
    lanes.add(("long", 101), ("b", 100), ("a", 1))
    assert lanes.pop_all() == ["b", "a", "long"]


def test_a_long_head_is_promoted_at_exactly_the_limit() -> None:
    lanes = Lanes(wait=3.0)
    lanes.ms = 3
    lanes.add(("long", 500), ("short", 5))
    lanes.ms = 5
    assert lanes.queue.next_lane == "short"
    lanes.ms = 6
    assert lanes.queue.next_lane == "long"


def test_only_the_head_of_the_long_lane_ages_and_a_prepended_one_hides_the_others() -> None:
    lanes = Lanes()
    lanes.add(("old", 500), ("short", 5))
    lanes.ms = 10
    lanes.queue.prepend_request(request("fresh", 500))
    assert lanes.queue.long_head_wait_ms == 0
    assert lanes.pop_all() == ["short", "fresh", "old"]


def test_a_peek_keeps_its_lane_until_somebody_comes_or_goes() -> None:
    lanes = Lanes()
    lanes.add(("long", 500), ("short", 5))
    assert lanes.queue.peek_request().request_id == "short"
    lanes.ms = 50
    assert lanes.queue.peek_request().request_id == "short"
    lanes.add(("other", 5))
    assert lanes.queue.peek_request().request_id == "long"


def test_preempted_requests_are_immediate_whatever_their_length() -> None:
    lanes = Lanes()
    victim = request("victim", 500)
    victim.status = RequestStatus.PREEMPTED
    lanes.add(("short", 5))
    lanes.queue.prepend_request(victim)
    assert lanes.pop_all() == ["victim", "short"]


def test_iteration_goes_lane_by_lane() -> None:
    lanes = Lanes()
    lanes.add(("long", 500), ("short", 5))
    lanes.ms = 50
    assert names(lanes.queue) == ["short", "long"]
    assert lanes.queue.next_lane == "long"


def test_removing_is_strict_for_one_and_lenient_for_many() -> None:
    lanes = Lanes()
    lanes.add(("here", 5))
    here, gone = next(iter(lanes.queue)), request("gone", 5)
    with pytest.raises(ValueError, match="gone"):
        lanes.queue.remove_request(gone)
    lanes.queue.remove_requests((gone, here))
    assert not lanes.queue
    with pytest.raises(IndexError):
        lanes.queue.pop_request()


def test_waiting_starts_again_with_every_entry() -> None:
    lanes = Lanes()
    lanes.add(("long", 500))
    lanes.ms = 4
    long = lanes.queue.pop_request()
    lanes.queue.add_request(long)
    assert lanes.queue.long_head_wait_ms == 0


@pytest.mark.parametrize(("threshold", "wait"), [(-1, 0.0), (1, -0.5)])
def test_negative_options_are_refused(threshold: int, wait: float) -> None:
    with pytest.raises(ValueError, match="non-negative"):
        ShortRequestFirstConfig(threshold, wait)


def test_installation_needs_fcfs_and_an_empty_queue_and_happens_once() -> None:
    scheduler = VllmScheduler(engine())
    config = ShortRequestFirstConfig()
    install_short_request_first(scheduler, config, lambda: 0.0)
    lanes = scheduler.waiting
    scheduler.add_request(request("r", 5))
    install_short_request_first(scheduler, config, lambda: 0.0)
    assert scheduler.waiting is lanes

    busy = VllmScheduler(engine())
    busy.add_request(request("r", 5))
    with pytest.raises(RuntimeError):
        install_short_request_first(busy, config, lambda: 0.0)
    with pytest.raises(ValueError, match="FCFS"):
        install_short_request_first(VllmScheduler(engine(policy="priority")), config, lambda: 0.0)


def test_without_the_defect_a_lane_is_as_old_as_its_oldest_request() -> None:
    """A fresh long request in front does not hide the age of the one behind it (V-007)."""
    for hides, order in ((True, ["short", "fresh", "old"]), (False, ["fresh", "old", "short"])):
        now = [0.0]
        config = ShortRequestFirstConfig(100, 5.0, head_hides_age=hides)
        queue = ShortRequestFirstRequestQueue(config, lambda: now[0])  # noqa: B023 - called in this round
        queue.add_request(request("old", 101))
        now[0] = 0.005
        queue.add_request(request("short", 1))
        queue.prepend_request(request("fresh", 101))
        assert [queue.pop_request().request_id for _ in range(3)] == order
