"""Prefixes of prompts: what two of them share stands at their beginning (S-072).

A prompt is hash ids, or a named text, or a conversation so far, and then what is its own, to which its
outputs are added. Nobody else has a block with a token of its own before it has ended, so that all these are
one run without end, and nothing has to be noted while the request decodes.
"""

from __future__ import annotations

from array import array
from typing import Final

from serq.runtime.serving.identity import Prefix, shared_tokens
from serq.runtime.trace.columns import TOKENS_PER_HASH
from serq.runtime.vllm.extents.chains import Chain, PrefixChain, Run, RunHasher

_WITHOUT_END: Final = 1 << 60


class HashRun(Run):
    """A run of hash ids: ``ids``, from its first block on. Another may follow each of them, in ``branches``.

    A key of ``branches`` is (how many of ``ids`` come before, the id that comes instead of the next).
    """

    __slots__ = ("branches", "ids")

    def __init__(self, ids: array[int]) -> None:
        self.ids = ids
        self.branches: dict[tuple[int, int], HashRun] = {}

    def shared(self, ids: array[int]) -> int:
        """How many of the first of ``ids`` are those of the run."""
        own = self.ids
        count = min(len(own), len(ids))
        if own[:count] == ids[:count]:
            return count
        place = 0
        while own[place] == ids[place]:
            place += 1
        return place


class PromptChains:
    """Chains of prompts: two share a run exactly where they are equal up to its first block.

    Engines with blocks of one size have them in common: a prompt may continue one that another computed.
    """

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._per_id = TOKENS_PER_HASH // block_size
        self._aligned = TOKENS_PER_HASH % block_size == 0
        self._root = HashRun(array("q"))
        self._hasher = RunHasher(block_size)

    def chain(self, num_tokens: int, prefix: Prefix | None, hash_ids: array[int] | None) -> Chain:
        """The prefixes of a prompt of ``num_tokens`` tokens, and of its outputs.

        It begins with a named text, or with hash ids, or neither.
        """
        chain = Chain()
        if hash_ids is not None and self._aligned:
            self._follow(chain, hash_ids, min(num_tokens, TOKENS_PER_HASH * len(hash_ids)) // self._size)
        elif prefix is not None or hash_ids is not None:
            shared = PrefixChain(self._hasher, shared_tokens(num_tokens, prefix=prefix, hash_ids=hash_ids))
            chain.runs, chain.ends = shared.runs, shared.ends
        chain.runs.append(Run())
        chain.ends.append(_WITHOUT_END)
        return chain

    def continued(self, earlier: Chain, num_tokens: int) -> Chain:
        """The prefixes of a prompt that begins with the first ``num_tokens`` tokens of ``earlier``."""
        chain, blocks, begin = Chain(), num_tokens // self._size, 0
        for run, end in zip(earlier.runs, earlier.ends, strict=True):
            if begin >= blocks:
                break
            chain.runs.append(run)
            chain.ends.append(min(end, blocks))
            begin = end
        chain.runs.append(Run())
        chain.ends.append(_WITHOUT_END)
        return chain

    def _follow(self, chain: Chain, hash_ids: array[int], blocks: int) -> None:
        """Write down in ``chain`` the first ``blocks`` blocks of ``hash_ids``."""
        per_id = self._per_id
        left = hash_ids[: -(-blocks // per_id)]
        run, end = self._root, 0
        while left:
            shared = run.shared(left)
            branch = run.branches.get((shared, left[shared])) if shared < len(left) else None
            if branch is None and shared < len(left):
                if shared == len(run.ids):
                    run.ids.extend(left[shared:])
                    shared = len(left)
                else:
                    branch = run.branches[shared, left[shared]] = HashRun(left[shared:])
            if shared:
                end = min(end + shared * per_id, blocks)
                chain.runs.append(run)
                chain.ends.append(end)
            left = left[shared:]
            if branch is not None:
                run = branch
