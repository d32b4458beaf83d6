"""The steps of a run one under another, as `serq run --steps` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serq.errors import UsageError
from serq.results.tables import Table, figure, member_namer
from serq.runtime.request_records import EngineRow

HEADINGS = (
    *("step", "start", "seconds", "state", "decode tokens", "prefill tokens", "padding", "graph"),
    *("running", "waiting"),
)


def step_tables(engines: Sequence[EngineRow], first: int, last: int, stage: str | None) -> Iterator[Table]:
    """One table an engine: its steps number ``first`` to ``last``, counted from 1 over the whole run.

    Raises UsageError where ``stage``, a stage or a member of one such as ``npu[1]``, is none of ``engines``.
    """
    from serq.results.step_layouts import lay_out  # device layouts: only where steps are shown

    name = member_namer(engines)
    if stage is not None and stage not in {known for e in engines for known in (e.name, name(e))}:
        known = ", ".join(f"`{name(engine)}`" for engine in engines) or "none"
        raise UsageError(f"no engine `{stage}`; the vllm stages of this program: {known}")
    for engine, laid in zip(engines, lay_out(engines), strict=True):
        if stage not in (None, engine.name, name(engine)):
            continue
        table = engine.table
        yield Table(
            (f"{name(engine)}: {HEADINGS[0]}", *HEADINGS[1:]),
            tuple(
                (
                    str(place + 1),
                    figure(table.start[place]),
                    figure(table.end[place] - table.start[place]),
                    laid[place].state,
                    str(laid[place].device_decode),
                    str(laid[place].device_prefill),
                    str(laid[place].padded - table.tokens[place]),
                    laid[place].graph,
                    str(table.running[place]),
                    str(table.waiting[place]),
                )
                for place in range(first - 1, min(last, len(laid)))
            ),
        )
