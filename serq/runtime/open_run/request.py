"""A request of an open run: what its engine counts, and what its session reads."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any, ClassVar

from serq.runtime.vllm.request import RequestStatus


class OpenRequest:
    """One request. It has ``num_tokens`` known tokens, ``computed`` of them while its prompt is computed.

    Once the prompt is complete, with step ``joined``, it is counted: step number i brings output number
    ``before + i - joined + 1``, up to step ``last``; ``offset + i`` tokens are computed before step i. It
    ``leaves`` with that step, or with the next one where it ``overruns``: 1 if its end is not foreseen while
    a step is in flight, else 0. Before, and again after a preemption, ``joined`` is -1.
    """

    __slots__ = (
        "admission",
        "before",
        "cached",
        "chain",
        "computed",
        "end_time",
        "engine",
        "first_step",
        "first_time",
        "handle",
        "held",
        "job",
        "joined",
        "kept",
        "label",
        "lane",
        "last",
        "last_step",
        "last_time",
        "leaves",
        "num_output_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "num_tokens",
        "offset",
        "outputs",
        "over",
        "overruns",
        "priority",
        "queued_time",
        "reason",
        "row",
        "scheduled_time",
        "sent_time",
        "session_number",
        "stops",
        "table",
        "turn",
        "waits_since",
    )

    ready_time: ClassVar[float] = nan
    fetched: ClassVar[int] = 0
    """No KV is fetched."""

    chain: Any
    """The prefixes of its prompt and outputs, where prefixes are cached."""
    table: Any
    """Its blocks, likewise."""
    admission: int
    last: int
    leaves: int
    offset: int
    waits_since: float

    def __init__(
        self,
        row: int,
        session_number: int,
        turn: int,
        over: Callable[[float, OpenRequest], object],
        handle: str,
        kept: Any,
        engine: int,
        sent_time: float,
        prompt: int,
        outputs: int,
        stops: bool,
        overruns: int,
        label: float,
        job: float,
    ) -> None:
        """``outputs`` tokens end it: by length, or because the model ``stops``.

        ``over`` is what its session does then, with what is ``kept`` of its attributes.
        """
        self.row = row
        self.session_number = session_number
        self.turn = turn
        self.over = over
        self.handle = handle
        self.kept = kept
        self.engine = engine
        self.sent_time = sent_time
        self.num_prompt_tokens = self.num_tokens = prompt
        self.outputs = outputs
        self.stops = stops
        self.overruns = overruns
        self.label = label
        self.job = job
        """As its client said; queues may read it."""
        self.priority = 0
        self.queued_time = self.scheduled_time = self.first_time = self.last_time = self.end_time = nan
        self.reason = ""
        self.lane = "waiting"
        """Where it waits, or waited last."""
        self.cached = self.computed = self.held = 0
        self.num_output_tokens = self.num_preemptions = self.before = 0
        self.first_step = self.last_step = self.joined = -1

    @property
    def deliveries(self) -> int:
        """Every step brings one token."""
        return self.num_output_tokens

    # --- what a queue reads -----------------------------------------------------------------------------

    @property
    def request_id(self) -> int:
        """Ids compare in the order of sending."""
        return self.row

    @property
    def session(self) -> Any:
        """The attributes of its session that somebody reads."""
        return self.kept

    @property
    def client(self) -> OpenRequest:
        """Who sent it: what the client said is known here."""
        return self

    @property
    def arrival_time(self) -> float:
        """When it was sent."""
        return self.sent_time

    @property
    def num_computed_tokens(self) -> int:
        """Tokens that are computed: none of those of a request that waits."""
        return self.computed

    @property
    def status(self) -> RequestStatus:
        """How a request stands that waits."""
        return RequestStatus.PREEMPTED if self.num_preemptions else RequestStatus.WAITING
