"""The rows of every step of an engine, kept only where a run is asked for them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from serq.kernels.step_batch import BatchRow, StepBatch
from serq.runtime.vllm.scheduler_output import SchedulerOutput

ALONE = -1
"""The round of a step that no other rank has part in."""


def _integers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class StepRows:
    """One entry a row, step after step; step i has the rows up to ``ends[i]`` (:class:`BatchRow`).

    ``rounds`` holds for every step in which round of its data-parallel group it ran.
    """

    query: array[int] = field(default_factory=_integers)
    computed: array[int] = field(default_factory=_integers)
    prompt: array[int] = field(default_factory=_integers)
    drafts: array[int] = field(default_factory=_integers)
    decode: bytearray = field(default_factory=bytearray)
    ends: array[int] = field(default_factory=_integers)
    rounds: array[int] = field(default_factory=_integers)

    def add(self, step: SchedulerOutput, round_number: int = ALONE) -> None:
        """Append a step that has rows."""
        for share in step.scheduled.values():
            self.query.append(share.num_tokens)
            self.computed.append(share.num_computed_tokens)
            self.prompt.append(share.request.num_prompt_tokens)
            self.drafts.append(share.num_spec_tokens)
            self.decode.append(share.is_decode)
        self.ends.append(len(self.query))
        self.rounds.append(round_number)

    def __len__(self) -> int:
        return len(self.ends)

    def batch(self, step: int) -> StepBatch:
        """Step number ``step``, its requests without names."""
        first = self.ends[step - 1] if step else 0
        return StepBatch.of(
            tuple(
                BatchRow(
                    request="",
                    query=self.query[place],
                    computed=self.computed[place],
                    prompt=self.prompt[place],
                    drafts=self.drafts[place],
                    decode=bool(self.decode[place]),
                )
                for place in range(first, self.ends[step])
            )
        )
