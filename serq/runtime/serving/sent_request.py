"""A request as its client sees it: when it was sent, what came back, and how it ended."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Final

from serq.runtime.vllm.request import Hasher, Request, RequestStatus

if TYPE_CHECKING:
    from serq.runtime.clock import Ticket
    from serq.runtime.random import DrawStream, RandomSource
    from serq.runtime.serving.engine import VllmEngine
    from serq.runtime.session import Session

_REASONS: Final = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_REPETITION: "repetition",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_ERROR: "error",
    RequestStatus.FINISHED_RECOMPUTED: "recomputed",
}


class ServedRequest(Request):
    """The engine's request, and who sent it: waiting orders read what the client said."""

    __slots__ = ("client",)

    client: SentRequest


class SentRequest:
    """What a session knows of a request of its own.

    Times are NaN until they come. ``reason`` is empty until the request has ended for the client, which for
    an abort is when it gives up: the engine hears of it between two steps.
    """

    __slots__ = (
        "_draws",
        "_number_in_session",
        "_random",
        "acceptance",
        "best_position",
        "cached",
        "deliveries",
        "end_time",
        "engine",
        "fetched",
        "first_time",
        "futile_preemptions",
        "handle",
        "hasher",
        "holds_kv",
        "immediate",
        "job",
        "label",
        "last_time",
        "offers_kv",
        "position_at_preemption",
        "queued_time",
        "ready_time",
        "reason",
        "request",
        "row",
        "scheduled_time",
        "sent_time",
        "session",
        "source",
        "timer",
    )

    def __init__(
        self,
        request: ServedRequest,
        session: Session,
        engine: VllmEngine,
        handle: str,
        sent_time: float,
        *,
        hasher: Hasher | None,
        random: RandomSource,
        number_in_session: int,
        acceptance: tuple[float, ...] = (),
        label: float = nan,
        job: float = nan,
        immediate: bool = False,
        source: SentRequest | None = None,
        offers_kv: bool = False,
    ) -> None:
        self.request = request
        self.session = session
        self.engine = engine
        self.handle = handle
        self.sent_time = sent_time
        self.hasher = hasher
        self._random = random
        self._number_in_session = number_in_session
        self._draws: DrawStream | None = None
        self.acceptance = acceptance
        self.label = label
        self.job = job
        self.immediate = immediate
        self.source = source
        """The request whose KV its own prompt is fetched from; None: there is none, or it was fetched."""
        self.offers_kv = offers_kv
        """Whether the program fetches its KV from its engine."""
        self.holds_kv = False
        """Whether it has ended and its engine keeps its blocks."""
        self.ready_time = nan
        self.queued_time = self.scheduled_time = self.first_time = self.last_time = self.end_time = nan
        self.cached: int | None = None
        """Tokens found in the cache when it was first let in, to run or to load; None before."""
        self.fetched = 0
        """Tokens that were to be loaded from elsewhere then."""
        self.deliveries = 0
        """Steps that brought tokens."""
        self.reason = ""
        self.timer: Ticket | None = None
        self.row = -1
        """Its place in the table of requests."""
        self.best_position = 0
        """Furthest token that a prefill of it has reached."""
        self.position_at_preemption = 0
        self.futile_preemptions = 0
        """Preemptions since it last got further than ever before."""
        request.client = self

    # --- what happens to it ---------------------------------------------------------------------------------

    def accepts(self, draft: int, chance: float) -> bool:
        """Whether draft number ``draft`` of a verifying step is taken: a draw of this request alone."""
        draws = self._draws
        if draws is None:
            draws = self._draws = self._random.request(self.session.number, self._number_in_session)
        return draws.unit(draft) < chance

    def end(self, status: RequestStatus, now: float) -> None:
        """It ended; a client that has gone on already knows better."""
        if not self.reason:
            self.close(_REASONS[status], now)

    def close(self, reason: str, now: float) -> None:
        """The client goes on."""
        self.reason = reason
        self.end_time = now
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def give_up(self, now: float) -> None:
        """The client does not wait any longer."""
        self.close("abort", now)
        self.engine.abort(self)

    def withdraw(self, session: Session) -> None:
        """The session was preempted while it waited: it aborts its request."""
        self.give_up(self.engine.now())

    # --- identity -------------------------------------------------------------------------------------------

    def prefix_keys(self, hasher: Hasher) -> Any:
        """The keys of the whole blocks of prompt and outputs so far."""
        if self.hasher is hasher:
            return self.request.block_hashes
        return hasher.keys_of(self.request.tokens).keys

    # --- counts ---------------------------------------------------------------------------------------------

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt."""
        return self.request.num_prompt_tokens

    @property
    def num_output_tokens(self) -> int:
        """Tokens that came back."""
        return self.request.num_output_tokens

    @property
    def num_preemptions(self) -> int:
        """How often it was preempted."""
        return self.request.num_preemptions
