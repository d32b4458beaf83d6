"""What a run answers to what its program asks: objectives, goodput, expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from serq.ir import nodes
from serq.results.expectations import Outcome, judge, not_judged
from serq.results.figures import Figures
from serq.results.objectives import GoodputRow, ObjectiveRow, goodput_rows, objective_rows
from serq.results.statistics import Summary
from serq.runtime.records import Records
from serq.source import Diagnostic, Place, SourceMap


class Answers(msgspec.Struct, frozen=True):
    """One row an objective, goodput of all requests and of every class, one outcome an expectation."""

    objectives: Sequence[ObjectiveRow] = ()
    goodput: Sequence[GoodputRow] = ()
    expectations: Sequence[Outcome] = ()

    @property
    def failed(self) -> list[Outcome]:
        """The expectations that do not hold."""
        return [outcome for outcome in self.expectations if outcome.holds is False]

    def remarks(self) -> list[str]:
        """What a report says of the expectations: how many hold, and what was measured of the others."""
        if not self.expectations:
            return []
        if self.expectations[0].holds is None:
            return ["expect: not judged, because the run was stopped"]
        count = len(self.expectations)
        heading = f"expect: {count - len(self.failed)} of {count} hold"
        return [heading, *(outcome.diagnostic("warning").render() for outcome in self.failed)]


def answer(
    program: nodes.Program, source_map: SourceMap | None, records: Records, summaries: Mapping[str, Summary]
) -> Answers:
    """The answers of a run; a stopped one says nothing about expectations."""
    places: Sequence[Place | None] = () if source_map is None else source_map.expectations
    places = places or [None] * len(program.expectations)
    goodput = goodput_rows(program.objectives, records)
    asked = zip(program.expectations, places, strict=True)
    if records.stopped is not None:
        outcomes = [not_judged(node, place) for node, place in asked]
    else:
        figures = Figures(records, summaries, goodput)
        outcomes = [judge(node, figures, records.series, place) for node, place in asked]
    return Answers(objective_rows(program.objectives, records), goodput, outcomes)


def failures(answers: Answers) -> list[Diagnostic]:
    """The expectations that do not hold, as errors."""
    return [outcome.diagnostic("error") for outcome in answers.failed]
