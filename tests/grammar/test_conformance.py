"""The recorded programs compile, or are refused, as recorded."""

from __future__ import annotations

import pytest

from serq.errors import CompileError
from serq.grammar import link_program
from serq.ir.codec import decode, encode
from serq.source import SourceFile
from tests.conformance.recordings import Recording, deviations, recordings


def wants_refusal(recording: Recording) -> bool:
    ours = deviations().get(recording.name, "")
    if ours.startswith(("refuse", "reject")):
        return True
    return recording.outcome.refused == "compile" and not ours.startswith("accept")


@pytest.mark.parametrize("name", sorted(recordings()))
def test_compiles_or_not_as_recorded(name: str) -> None:
    recording = recordings()[name]
    source = SourceFile(recording.path.name, recording.path.read_text("utf-8"))
    if wants_refusal(recording):
        with pytest.raises(CompileError) as refusal:
            link_program(source)
        assert len(refusal.value.diagnostics) == 1, "one mistake, one message"
        assert refusal.value.diagnostics[0].span is not None
        return
    linked = link_program(source)
    assert decode(encode(linked.program)) == linked.program
