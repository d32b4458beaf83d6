"""One line for every name that the model supplies, as an editor shows it (docs/language.md has the whole)."""

from __future__ import annotations

from typing import Final

from serq.ir.engine_options import (
    ENGINE_OPTIONS,
    GROUP_OPTIONS,
    WAITING_OPTIONS,
    EngineOption,
)

FUNCTION_MEANINGS: Final = {
    "abs": "abs(x): x without its sign",
    "floor": "floor(x): the largest whole number not above x",
    "ceil": "ceil(x): the smallest whole number not below x",
    "sqrt": "sqrt(x): the square root",
    "exp": "exp(x): e to the power x; ~exp(mean): an exponential draw",
    "ln": "ln(x): the natural logarithm",
    "min": "min(a, b): the smaller; min i in n (e): the smallest e over i = 0 .. n-1",
    "max": "max(a, b): the larger; max i in n (e): the largest e over i = 0 .. n-1",
    "sum": "sum i in n (e): the sum of e over i = 0 .. n-1",
    "pow": "pow(a, b): a to the power b",
    "det": "~det(value): the value itself",
    "uniform": "~uniform(low, high): a uniform draw",
    "erlang": "~erlang(stages, mean): a sum of exponential draws",
    "gamma": "~gamma(shape, mean): a gamma draw; its squared coefficient of variation is 1 / shape",
    "lognormal": "~lognormal(mean, cv2): a log-normal draw with this squared coefficient of variation",
    "h2": "~h2(mean, cv2): a hyperexponential draw with this squared coefficient of variation",
    "bernoulli": "~bernoulli(p): 1 with probability p, else 0",
    "used": "used(POOL): units allocated, leases included and cached units not",
    "free": "free(POOL): capacity minus used(POOL)",
    "holders": "holders(POOL): live allocations",
    "queued": "queued(POOL): sessions that wait to be admitted",
    "cachedin": "cachedin(POOL): units that the session's own cache entry has there",
    "blocksize": "blocksize(POOL): units of one block",
    "queue": "queue(STAGE): jobs present, those in service included",
    "busy": "busy(STAGE): jobs in service; running requests of a vllm stage",
    "work": "work(STAGE): work that is left",
    "est_lambda": "est_lambda(STAGE): running estimate of the arrival rate",
    "est_rho": "est_rho(STAGE): running estimate of the load",
    "est_wait": "est_wait(STAGE): running estimate of the waiting time",
    "budget_left": "budget_left(STAGE): tokens that the iteration can still take",
    "price": "price(STAGE, ...): not modelled",
    "waiting": "waiting(ENGINE): requests sent and not running; in `evict by`, 1 if its session waits",
    "running": "running(ENGINE): requests that run",
    "kv_usage": "kv_usage(ENGINE): share of the blocks in use, 0 to 1",
    "reusable": "reusable(ENGINE, h): tokens of the conversation of request h that are cached there",
    "ttft": "ttft(h): seconds from sending to the first token",
    "tpot": "tpot(h): seconds per output token after the first",
    "itl": "itl(h): mean seconds between deliveries",
    "e2e": "e2e(h): seconds from sending to the last token",
    "queue_time": "queue_time(h): seconds from intake to first admission",
    "sent": "sent(h): when it was sent",
    "first_token": "first_token(h): when its first token came",
    "last_token": "last_token(h): when its last token came",
    "prompt_tokens": "prompt_tokens(h): tokens of its prompt",
    "cached_tokens": "cached_tokens(h): prompt tokens that were cached when it was admitted",
    "kv_ready": "kv_ready(h): when KV that was fetched for it was there",
    "fetched_tokens": "fetched_tokens(h): prompt tokens whose KV was fetched over a connector",
    "generated": "generated(h): output tokens so far",
    "preempted": "preempted(h): how often it was preempted",
    "stopped": "stopped(h): 1 if it ended by a stop token",
    "aborted": "aborted(h): 1 if its client gave up",
    "failed": "failed(h): 1 if its KV could not be loaded",
    "recomputed": "recomputed(h): 1 if its engine asks for it to be computed elsewhere",
    "rejected": "rejected(h): 1 if it did not fit `max_model_len`",
}
"""Function, live read, reading of a request or draw -> what it is."""

READING_MEANINGS: Final = {
    "now": "the instant, in the unit of the program (seconds by convention)",
    "waited": "seconds that this session or request has waited in this queue",
    "size": "units of the cache entry",
    "age": "seconds since the cache entry was released",
    "last": "when the cache entry was released",
    "present": "jobs present at this stage",
    "residents": "runs or requests that the engine serves",
    "scheduled": "requests that have tokens in this step",
    "tokens": "tokens of this step; of a transfer, tokens moved",
    "blocks": "blocks that a transfer moves",
    "prefilled": "tokens of this step that are not decodes",
    "decoders": "decodes in this step",
    "attention": "sum over prefills of tokens times the context they look back on",
    "kv_decode": "tokens of KV that the decodes hold, whole blocks",
    "kv_prefill": "tokens of KV that the prefills hold, whole blocks",
    "context_decode": "computed tokens of the decodes",
    "context_prefill": "computed tokens of the prefills",
    "decoding": "1 if this resident decodes",
    "admission": "number of this resident in order of admission",
    "remaining": "tokens that this resident still needs",
    "output_tokens": "output tokens so far",
    "computed_tokens": "tokens whose KV is there",
    "priority": "priority of the request; smaller goes first",
    "class": "class of the request",
    "job": "job of the request",
    "serial": "number of the session, from 0",
    "turn_no": "turns of the session so far",
    "cached": "cached units that the last admission found",
    "computed": "position of the hold: what is computed of its units",
    "new": "tokens of this turn, from the trace",
    "out": "output tokens of this turn, from the trace",
    "think": "seconds between turns, from the trace",
    "more": "1 if the trace has another turn",
    "forced": "what the trace gives in its column `forced`",
}
"""Context variable or supplied attribute -> what it is."""


def meaning(word: str) -> str | None:
    """What a word means, as Markdown; None for a name that the program gives itself."""
    tables = (ENGINE_OPTIONS, GROUP_OPTIONS, *WAITING_OPTIONS.values())
    options = [table[word] for table in tables if word in table]
    lines = [_option(option) for option in options]
    lines += [text for text in (FUNCTION_MEANINGS.get(word), READING_MEANINGS.get(word)) if text]
    return "\n\n".join(lines) or None


def _option(option: EngineOption) -> str:
    default = "required" if option.required else f"default {option.default}"
    words = f"; one of {', '.join(option.words)}" if option.words else ""
    rules = f" ({option.rules})" if option.rules else ""
    return f"**{option.name}**: {option.meaning}; {default}{words}{rules}"
