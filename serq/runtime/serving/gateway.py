"""The statement `request`: a session's request is built, sent to an engine, and read when it has ended."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import inf, isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from serq.errors import RunError
from serq.runtime.clock import Clock
from serq.runtime.random import RandomSource
from serq.runtime.serving.identity import Prefix, own_tokens, prompt_tokens
from serq.runtime.serving.numbers import asked_lengths, prefix_of, whole
from serq.runtime.serving.sent_request import SentRequest, ServedRequest
from serq.runtime.session import Session
from serq.runtime.vllm.request import StopRule
from serq.runtime.vllm.tokens import OutputScript, Piece, TokenSequence

if TYPE_CHECKING:
    from serq.runtime.serving.engine import VllmEngine
    from serq.runtime.trace.columns import Trace

class RequestTerms(NamedTuple):
    """What a `request` statement says, its expressions evaluated; None or NaN: the clause is not written."""

    handle: str
    new_tokens: float
    output_tokens: float
    follows: str | None = None
    source: str | None = None
    """`from g via c`: the handle of the request whose KV is fetched."""
    traced: bool = False
    prefix: tuple[float, float] | None = None
    abort_after: float = inf
    label: float = nan
    priority: float = 0.0
    max_tokens: float | None = None
    min_tokens: float = 0.0
    job: float = nan
    immediate: float = 0.0
    skip_reading_prefix_cache: float = 0.0
    accept: tuple[float, ...] = ()


class Gateway:
    """Sends the requests of a run's sessions. Requests are numbered in the order of sending.

    ``fetched`` are the handles that some statement fetches, each with the connector that it names.
    """

    def __init__(
        self,
        clock: Clock,
        wake: Callable[[Session], None],
        random: RandomSource,
        fetched: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._random = random
        self._fetched = fetched
        self._count = 0

    def send(self, session: Session, engine: VllmEngine, terms: RequestTerms) -> None:
        """Send a request of ``session``, which waits until it ends.

        A prompt that leaves no room for an output within `max_model_len` is rejected at once. Raises RunError
        for lengths that are not whole, an empty prompt, and a prompt that can never fit the engine's blocks.
        """
        sent = self._build(session, engine, terms)
        session.requests[terms.handle] = sent
        if sent.request.num_prompt_tokens >= engine.resolved.config.max_model_len:
            sent.close("rejected", self._clock.now)
            engine.log.rejected(sent)
            self._wake(session)
            return
        engine.send(sent)
        session.blocked_on = sent
        if terms.abort_after < inf:
            self._limit_patience(sent, terms.abort_after)

    def read(self, session: Session, handle: str) -> SentRequest:
        """The latest request that ``session`` sent under ``handle``. Raises RunError if there is none."""
        sent = session.requests.get(handle)
        if sent is None:
            raise RunError(f"the session has sent no request `{handle}` yet", code="request-not-sent")
        return sent

    def _limit_patience(self, sent: SentRequest, patience: float) -> None:
        """`abort after (e)`: the client gives up and goes on."""
        if not patience >= 0.0:
            raise RunError(f"`abort after ({patience:.10g})` is not a duration", code="negative-amount")

        def give_up() -> None:
            sent.timer = None
            sent.give_up(self._clock.now)
            self._wake(sent.session)

        sent.timer = self._clock.at(self._clock.now + patience, give_up)

    # --- what is sent -----------------------------------------------------------------------------------

    def _build(self, session: Session, engine: VllmEngine, terms: RequestTerms) -> SentRequest:
        number = self._count
        self._count += 1
        now = self._clock.now
        stop_rule, output = _end(number, terms)
        priority = terms.priority
        request = ServedRequest(
            request_id(number, terms.job),
            self._prompt(session, number, terms),
            stop_rule,
            output,
            arrival_time=now,
            priority=whole(priority, "priority", lowest=-inf) if priority else 0,
            skip_reading_prefix_cache=terms.skip_reading_prefix_cache != 0.0,
            hasher=engine.hasher,
        )
        if request.num_prompt_tokens < 1:
            raise RunError(f"request `{terms.handle}` has an empty prompt", code="empty-prompt")
        return SentRequest(
            request,
            session,
            engine,
            terms.handle,
            now,
            hasher=engine.hasher,
            random=self._random,
            number_in_session=_next_number(session),
            acceptance=terms.accept,
            label=terms.label,
            job=terms.job,
            immediate=terms.immediate != 0.0,
            source=None if terms.source is None else self.read(session, terms.source),
            offers_kv=engine.connector is not None and (terms.handle, engine.connector) in self._fetched,
        )

    def _prompt(self, session: Session, number: int, terms: RequestTerms) -> TokenSequence:
        if terms.source is not None:
            return self._fetched_prompt(session, terms.source, terms)
        earlier = None if terms.follows is None else session.requests.get(terms.follows)
        conversation = () if earlier is None else earlier.request.tokens.runs
        new_tokens = whole(terms.new_tokens, "prompt tokens")
        hash_ids = hash_ids_of(session.trace, session.row, session.turn) if terms.traced else None
        return prompt_of(number, new_tokens, prefix_of(terms.prefix), hash_ids, conversation)

    def _fetched_prompt(self, session: Session, handle: str, terms: RequestTerms) -> TokenSequence:
        """The prompt of request ``handle``; the statement says its length, too."""
        request = self.read(session, handle).request
        if terms.new_tokens != request.num_prompt_tokens:
            raise RunError(
                f"request `{terms.handle}` has a prompt of {terms.new_tokens:.10g} tokens, and that of "
                f"`{handle}`, which it fetches, has {request.num_prompt_tokens}",
                code="fetched-length",
            )
        return TokenSequence(request.tokens.prefix(request.num_prompt_tokens))


def prompt_of(
    number: int,
    new_tokens: int,
    prefix: Prefix | None,
    hash_ids: array[int] | None,
    conversation: Sequence[Piece] = (),
) -> TokenSequence:
    """The prompt of request ``number``: the ``conversation`` that it continues, and what it says itself.

    That is ``new_tokens``, which begin with its ``prefix``, or are named by ``hash_ids``.
    """
    if prefix is None and hash_ids is None and not conversation:
        return own_tokens(number, new_tokens)
    return prompt_tokens(number, new_tokens, conversation=conversation, prefix=prefix, hash_ids=hash_ids)


def hash_ids_of(trace: Trace | None, row: int, turn: int) -> array[int]:
    """The hash ids of turn number ``turn`` of a session, before which ``row`` rows of its trace end."""
    if trace is None or trace.hash_ids is None:
        raise RunError("`traced` needs a trace with hash ids, such as Mooncake's", code="no-hash-ids")
    if turn == 0:
        raise RunError("`traced` before the first `turn;` has no row of the trace", code="no-hash-ids")
    return trace.hash_ids[row - 1]


def _next_number(session: Session) -> int:
    """How many requests ``session`` has sent before this one, which is counted."""
    session.request_count += 1
    return session.request_count - 1


def request_id(number: int, job: float) -> str:
    """Ids compare in the order of sending; the job stands in them as the queue of jobs expects it (V-019)."""
    return f"{number:07d}" if isnan(job) else f"{number:07d}#job_name[{job:.10g}]#"


def _end(number: int, terms: RequestTerms) -> tuple[StopRule, OutputScript]:
    """How the request ends: by length at `o`, with `max_tokens` by a stop token at `o` if that comes first.

    The model is not let stop before `min_tokens`.
    """
    lowest, length, limit = asked_lengths(terms.output_tokens, terms.min_tokens, terms.max_tokens)
    source = ("output", number)
    if limit is None:
        return StopRule(length, lowest), OutputScript(source)
    return StopRule(limit, lowest), OutputScript(source, end_at=length - 1)
