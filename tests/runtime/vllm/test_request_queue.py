"""Waiting orders (S-010, S-011, S-014)."""

from __future__ import annotations

import pytest

from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.request_queue import RequestQueue, create_request_queue
from serq.runtime.vllm.tokens import OutputScript


def request(name: str, priority: int = 0, arrival: int = 0) -> Request:
    return Request(
        name, [(name, 0, 1)], StopRule(1), OutputScript(name), priority=priority, arrival_time=arrival
    )


def drain(queue: RequestQueue) -> list[str]:
    names = []
    while queue:
        head = queue.peek_request()
        assert queue.pop_request() is head
        names.append(head.request_id)
    return names


def test_fcfs_keeps_the_order_of_calls_not_of_arrival_times() -> None:
    queue = create_request_queue("fcfs")
    for name, arrival in (("a", 5), ("b", 1), ("c", 3)):
        queue.add_request(request(name, arrival=arrival))
    queue.prepend_request(request("x"))
    queue.prepend_request(request("y"))
    assert [waiting.request_id for waiting in queue] == ["y", "x", "a", "b", "c"]
    assert drain(queue) == ["y", "x", "a", "b", "c"]


def test_set_aside_requests_come_back_in_the_order_they_were_seen() -> None:
    queue = create_request_queue("fcfs")
    queue.add_request(request("old"))
    queue.prepend_requests([request("first"), request("second")])
    assert drain(queue) == ["first", "second", "old"]


def test_priority_orders_by_priority_then_arrival_then_id() -> None:
    queue = create_request_queue("priority")
    for name, priority, arrival in (("d", 1, 0), ("c", 0, 9), ("b", 0, 2), ("a", 0, 2), ("e", -1, 50)):
        queue.add_request(request(name, priority, arrival))
    assert [waiting.request_id for waiting in queue] == ["e", "a", "b", "c", "d"]
    assert drain(queue) == ["e", "a", "b", "c", "d"]


def test_priority_gives_a_preempted_request_no_bonus() -> None:
    queue = create_request_queue("priority")
    queue.add_request(request("urgent", 0))
    queue.prepend_request(request("preempted", 1))
    queue.prepend_requests([request("aside", 2)])
    assert drain(queue) == ["urgent", "preempted", "aside"]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_removal_keeps_the_others_and_ignores_strangers(policy: str) -> None:
    queue = create_request_queue(policy)  # type: ignore[arg-type]
    held = [request(name, arrival=i) for i, name in enumerate("abcd")]
    for one in held:
        queue.add_request(one)
    queue.remove_requests([held[2], held[0], request("stranger")])
    assert len(queue) == 2
    assert drain(queue) == ["b", "d"]
    with pytest.raises(IndexError):
        queue.peek_request()
    with pytest.raises(IndexError):
        queue.pop_request()
