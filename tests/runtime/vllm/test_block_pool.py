"""Free order, eviction and prefix keys of blocks (S-005, S-073, S-092, S-094, S-128)."""

from __future__ import annotations

import pytest

from serq.errors import RunError
from serq.runtime.vllm.block_pool import BlockPool, KVCacheBlock


def pool(blocks: int = 6, *, caching: bool = True) -> BlockPool:
    return BlockPool(blocks, 1, enable_caching=caching)


def ids(blocks: list[KVCacheBlock]) -> list[int]:
    return [block.block_id for block in blocks]


def test_blocks_are_taken_in_id_order_without_the_null_block() -> None:
    blocks = pool()
    assert blocks.num_free_blocks == 5
    assert ids(blocks.get_new_blocks(3)) == [1, 2, 3]
    assert blocks.free_block_ids == [4, 5]
    assert blocks.usage == 1 - 2 / 5


def test_uncached_blocks_are_reused_before_cached_ones() -> None:
    """A freed sequence of two cached blocks and a partial one: the partial one first, then the tail."""
    blocks = pool()
    table = blocks.get_new_blocks(3)
    for key, block in enumerate(table[:2], 1):
        blocks.publish(block, key, 0, key * 16)
    blocks.free_blocks(reversed(table))
    assert blocks.free_block_ids == [3, 4, 5, 2, 1]


def test_several_uncached_blocks_keep_their_order_at_the_head() -> None:
    blocks = pool()
    table = blocks.get_new_blocks(3)
    blocks.free_blocks(reversed(table))
    assert blocks.free_block_ids == [3, 2, 1, 4, 5]


def test_without_caching_everything_joins_the_tail() -> None:
    blocks = pool(caching=False)
    blocks.free_blocks(reversed(blocks.get_new_blocks(3)))
    assert blocks.free_block_ids == [4, 5, 3, 2, 1]


def test_a_reused_block_forgets_what_it_cached() -> None:
    blocks = pool(2)
    (block,) = blocks.get_new_blocks(1)
    blocks.publish(block, 7, 0, 16)
    blocks.free_blocks([block])
    assert blocks.get_cached_blocks(7, [0]) == [block]
    assert blocks.get_new_blocks(1) == [block]
    assert blocks.get_cached_blocks(7, [0]) is None


def test_touching_takes_a_block_out_of_the_free_list() -> None:
    blocks = pool()
    table = blocks.get_new_blocks(2)
    blocks.publish(table[0], 7, 0, 16)
    blocks.free_blocks(reversed(table))
    blocks.touch([table[0]])
    blocks.touch([table[0]])
    assert 1 not in blocks.free_block_ids
    blocks.free_blocks([table[0]])
    assert 1 not in blocks.free_block_ids
    blocks.free_blocks([table[0]])
    assert blocks.free_block_ids[-1] == 1


def test_of_identical_blocks_the_first_published_is_found() -> None:
    blocks = pool()
    one, two, three = blocks.get_new_blocks(3)
    for block in (two, one, three):
        blocks.publish(block, 7, 0, 16)
    assert blocks.get_cached_blocks(7, [0]) == [two]
    blocks.evict(two)
    assert blocks.get_cached_blocks(7, [0]) == [one]
    blocks.evict(three)
    blocks.evict(one)
    assert blocks.get_cached_blocks(7, [0]) is None


def test_groups_must_all_hit() -> None:
    blocks = BlockPool(6, 2, enable_caching=True)
    one, two = blocks.get_new_blocks(2)
    blocks.publish(one, 7, 0, 16)
    assert blocks.get_cached_blocks(7, [0, 1]) is None
    blocks.publish(two, 7, 1, 16)
    assert blocks.get_cached_blocks(7, [0, 1]) == [one, two]


def test_a_partial_entry_gives_way_to_a_longer_one() -> None:
    blocks = pool()
    (block,) = blocks.get_new_blocks(1)
    blocks.publish(block, 5, 0, 4)
    blocks.publish(block, 6, 0, 8)
    assert blocks.get_cached_blocks(5, [0]) is None
    assert block.keys == [6]


def test_a_full_block_may_also_be_found_by_a_shorter_prefix() -> None:
    blocks = pool()
    (block,) = blocks.get_new_blocks(1)
    blocks.publish(block, 9, 0, 16)
    blocks.publish(block, 5, 0, 4)
    blocks.publish(block, 5, 0, 4)
    assert block.keys == [9, 5]
    other = blocks.get_new_blocks(1)[0]
    blocks.move_keys(block, other)
    assert (block.keys, other.keys, other.num_cached_tokens) == ([], [9, 5], 16)
    assert blocks.get_cached_blocks(5, [0]) == [other]


def test_reset_is_refused_while_a_block_is_held() -> None:
    blocks = pool()
    table = blocks.get_new_blocks(1)
    blocks.publish(table[0], 7, 0, 16)
    assert not blocks.reset_prefix_cache()
    assert blocks.get_cached_blocks(7, [0]) == table
    blocks.free_blocks(table)
    assert blocks.reset_prefix_cache()
    assert blocks.get_cached_blocks(7, [0]) is None
    assert blocks.num_free_blocks == 5


def test_more_blocks_than_there_are_is_an_error() -> None:
    blocks = pool()
    with pytest.raises(RunError, match="6 KV cache blocks are wanted and 5 are free"):
        blocks.get_new_blocks(6)
    assert blocks.num_free_blocks == 5
