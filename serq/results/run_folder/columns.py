"""The tables of a run folder: which columns they have, in which unit, and what they mean."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["number", "integer", "text"]
Table = Literal["observations", "requests", "steps", "queue", "preemptions"]


class Column(NamedTuple):
    """One column. ``kind``: a 64-bit float (NaN: it never came), a 64-bit integer, or a text."""

    name: str
    kind: Kind
    unit: str
    meaning: str


_TIME: Final = "time of the program, seconds by convention"

TABLES: Final[dict[Table, tuple[Column, ...]]] = {
    "observations": (
        Column("observation", "text", "", "name of the observation"),
        Column("time", "number", _TIME, "when the sample was taken"),
        Column("session", "integer", "", "number of the session, from 0 in the order of arrival"),
        Column("turn", "number", "", "`turn_no` of the session"),
        Column("value", "number", "the program's", "the sample"),
    ),
    "requests": (
        Column("request", "integer", "", "number of the request, from 0 in the order of sending"),
        Column("session", "integer", "", "number of its session"),
        Column("turn", "integer", "", "turns that the session had begun"),
        Column("handle", "text", "", "name of the request in the program"),
        Column("stage", "text", "", "the `vllm` stage it was sent to"),
        Column("member", "integer", "", "which member of that stage, from 0"),
        Column("class", "number", "", "its `class`; NaN where the program gives none"),
        Column("sent", "number", _TIME, "when the client sent it"),
        Column("queued", "number", _TIME, "when the engine took it in, between two steps"),
        Column("scheduled", "number", _TIME, "when the step was formed that first admitted it"),
        Column("first_token", "number", _TIME, "when its first token came"),
        Column("last_token", "number", _TIME, "when its last token came"),
        Column("finish", "number", _TIME, "when the engine let go of it"),
        Column("prompt_tokens", "integer", "tokens", "length of its prompt"),
        Column("cached_tokens", "integer", "tokens", "prompt tokens found cached at its first admission"),
        Column("fetched_tokens", "integer", "tokens", "of these, tokens fetched from another engine"),
        Column("generated", "integer", "tokens", "output tokens"),
        Column("deliveries", "integer", "steps", "steps that brought tokens"),
        Column("preemptions", "integer", "", "how often it had to give way"),
        Column("finish_reason", "text", "", "how it ended, in vLLM's words; empty: it had not ended"),
        Column("first_step", "integer", "", "number of the step that brought its first token; -1: none"),
        Column("last_step", "integer", "", "number of the step that brought its last token; -1: none"),
    ),
    "steps": (
        Column("stage", "text", "", "the `vllm` stage"),
        Column("member", "integer", "", "which member of that stage, from 0"),
        Column("step", "integer", "", "number of the step of this engine, from 0"),
        Column("formed", "number", _TIME, "when it was decided"),
        Column("start", "number", _TIME, "when the device began it"),
        Column("end", "number", _TIME, "when the device had done it"),
        Column("tokens", "integer", "tokens", "tokens computed"),
        Column("scheduled", "integer", "requests", "requests that got tokens"),
        Column("prefill_tokens", "integer", "tokens", "tokens of requests that do not decode"),
        Column("running", "integer", "requests", "requests running after it was formed"),
        Column("waiting", "integer", "requests", "requests waiting then"),
        Column("free_blocks", "integer", "blocks", "KV blocks free then"),
        Column("preempted", "integer", "requests", "requests that gave way to it"),
    ),
    "queue": (
        Column("stage", "text", "", "the `vllm` stage"),
        Column("member", "integer", "", "which member of that stage, from 0"),
        Column("request", "integer", "", "number of the request that waited"),
        Column("lane", "text", "", "where: `waiting`, a lane of the queue, `loading` or `loaded` (its KV)"),
        Column("entered", "number", _TIME, "since when it waited there"),
        Column("left", "number", _TIME, "till when; NaN: it waited when the run was over"),
        Column("outcome", "text", "", "`admitted`, `loading`, `loaded` or `ended`; empty: it still waited"),
        Column("step", "integer", "", "number of the step that admitted it; -1: none did"),
        Column("preemptions", "integer", "", "how often it had been preempted by then"),
    ),
    "preemptions": (
        Column("stage", "text", "", "the `vllm` stage"),
        Column("member", "integer", "", "which member of that stage, from 0"),
        Column("time", "number", _TIME, "when the step was formed that did it"),
        Column("step", "integer", "", "number of that step, or of the next one where it had no tokens"),
        Column("request", "integer", "", "number of the request that gave way"),
        Column("lost_tokens", "integer", "tokens", "computed tokens that it lost; 0: they were offloaded"),
        Column("needed_by", "integer", "", "number of the request that needed blocks; -1: none did"),
        Column("resumed", "number", _TIME, "when the step was formed that admitted it again; NaN: none did"),
        Column("recovered", "number", _TIME, "when its next token came; NaN: none before it gave way again"),
    ),
}
"""What the part files of each table hold. An empty table has no files."""


def described(table: Table) -> list[dict[str, str]]:
    """The columns of ``table`` as plain data."""
    return [column._asdict() for column in TABLES[table]]
