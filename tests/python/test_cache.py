"""The caches of fusions: what they share, what they forget, and the text of their statistics."""

import pytest
import torch

from nvfuser_go import DataType, FusionDefinition, InvalidType, LRUCache, LruFusionCache


def definition(rank: int) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.relu(fd.define_tensor([-1] * rank, True)))
    return fd


EMPTY = """\
Max Fusions Allowed: 5
The fusion cache is empty.
"""

AFTER_RANKS_1_2_1 = """\
Max Fusions Allowed: 5
Total Fusions in Cache: 2
Total Unique Fusions Compiled: 2
Cache Hits by LRU ordering:
\t0 -> 1 hits
\t1 -> 0 hits
Cache Lookups: 3
Cache Hits: 1
Hit Rate: 33.3333%
"""


def test_decorator():
    cached = LruFusionCache(max_fusions=5)(definition)
    assert cached.stats() == EMPTY
    assert cached.num_fusions() == 0
    one, two, again = cached(1), cached(2), cached(1)
    assert cached.stats() == AFTER_RANKS_1_2_1
    assert cached.num_fusions() == 2
    assert one.fec is again.fec
    assert one.fec is not two.fec
    assert repr(again) == repr(one)
    assert again.execute([torch.tensor([-1.0, 2.0])])[0].tolist() == [0.0, 2.0]
    assert cached.__name__ == "definition"
    with pytest.raises(InvalidType, match="must return a FusionDefinition"):
        LruFusionCache()(lambda: None)()
    with pytest.raises(NotImplementedError, match="Fusion does not exist"):
        LruFusionCache()(FusionDefinition)()


def test_the_least_recently_used_is_forgotten():
    cache = LRUCache(2)
    first = cache.cache_compile(definition(1).fusion)
    cache.cache_compile(definition(2).fusion)
    assert cache.cache_compile(definition(1).fusion) is first
    cache.cache_compile(definition(3).fusion)  # forgets rank 2
    assert cache.num_fusions() == 2
    assert cache.cache_compile(definition(1).fusion) is first
    cache.cache_compile(definition(2).fusion)
    assert cache.stats().splitlines() == [
        "Max Fusions Allowed: 2",
        "Total Fusions in Cache: 2",
        "Total Unique Fusions Compiled: 4",
        "Cache Hits by LRU ordering:",
        "\t0 -> 0 hits",
        "\t1 -> 2 hits",
        "Cache Lookups: 6",
        "Cache Hits: 2",
        "Hit Rate: 33.3333%",
    ]


def test_what_does_not_count_is_shared():
    cache = LRUCache(4)

    def define(extra: bool) -> FusionDefinition:
        with FusionDefinition() as fd:
            x = fd.define_tensor([2], True)
            if extra:
                fd.ops.exp(x)  # never used
            fd.add_output(x + 1.0)
        return fd

    assert cache.cache_compile(define(True).fusion) is cache.cache_compile(define(False).fusion)
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([2], True, DataType.Half) + 1.0)
    cache.cache_compile(fd.fusion)
    assert cache.num_fusions() == 2
