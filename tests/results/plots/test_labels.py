"""The figures of a study in words."""

import pytest

from serq.results.plots.labels import axis_label, more_is_better


@pytest.mark.parametrize(
    ("path", "label", "more"),
    [
        ("requests.ttft.p99", "time to first token, p99 [s]", False),
        ("requests.per_second", "requests [requests/s]", True),
        ("requests.output_tokens_per_second", "output tokens [tokens/s]", True),
        ("engines.npu[1].tpot.mean", "npu[1]: time per output token, mean [s]", False),
        ("engines.npu.preemptions", "npu: preemptions", False),
        ("engines.npu.prefix_hit_rate", "npu: prefix hit rate", True),
        ("observes.ttft_chat.mean", "ttft_chat, mean", False),
        ("goodput.all.share", "goodput: share", True),
        ("goodput.class 1.per_second", "goodput of class 1 [requests/s]", True),
        ("objectives.tpot p99 < 0.04.within", "tpot p99 < 0.04: share within", True),
        ("stages.desk.utilization", "desk: utilization", False),
        ("stages.desk.mean_wait", "desk: mean wait [s]", False),
        ("pools.kv.mean_used", "kv: mean used", False),
        ("events", "events", False),
        ("ttft.p99", "ttft.p99", False),
    ],
)
def test_labels(path: str, label: str, more: bool) -> None:
    assert (axis_label(path), more_is_better(path)) == (label, more)
