"""Which tokens a prompt consists of: what may be shared between requests, and nothing else.

By default a prompt is a text of its own. It may begin with a conversation so far, with the first tokens of a
named text, or be the trace's hash ids, each of which names 512 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.trace.columns import TOKENS_PER_HASH
from serq.runtime.vllm.tokens import Piece, TokenSequence

Prefix = tuple[float, int]
"""(text, tokens): the first ``tokens`` tokens are those of text number ``text``."""


def own_tokens(number: int, new_tokens: int) -> TokenSequence:
    """The prompt of request ``number``, which shares none of its tokens."""
    tokens = TokenSequence()
    tokens.append(("prompt", number), 0, new_tokens)
    return tokens


def prompt_tokens(
    number: int,
    new_tokens: int,
    *,
    conversation: Sequence[Piece] = (),
    prefix: Prefix | None = None,
    hash_ids: Sequence[int] | None = None,
) -> TokenSequence:
    """The prompt of request ``number``: the conversation it continues, then ``new_tokens`` tokens.

    What nothing names is the request's own.
    """
    tokens = shared_tokens(new_tokens, conversation=conversation, prefix=prefix, hash_ids=hash_ids)
    total = sum(length for _, _, length in conversation) + new_tokens
    tokens.append(("prompt", number), tokens.length, total - tokens.length)
    return tokens


def shared_tokens(
    new_tokens: int,
    *,
    conversation: Sequence[Piece] = (),
    prefix: Prefix | None = None,
    hash_ids: Sequence[int] | None = None,
) -> TokenSequence:
    """What a prompt of ``new_tokens`` tokens after a ``conversation`` may share with others: its beginning.

    A prefix fills those of its tokens that lie behind the conversation. Hash ids name the new tokens from
    their first on.
    """
    tokens = TokenSequence(conversation)
    total = tokens.length + new_tokens
    if prefix is not None:
        text, length = prefix
        tokens.append(("text", text), tokens.length, min(length, total) - tokens.length)
    for hash_id in hash_ids or ():
        tokens.append(("hash", hash_id), 0, min(TOKENS_PER_HASH, total - tokens.length))
    return tokens
