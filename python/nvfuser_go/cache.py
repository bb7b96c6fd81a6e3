"""Caches of fusions that are bounded by number and forget the least recently used one."""

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from nvfuser_go.definition import FusionDefinition
from nvfuser_go.errors import InvalidArgument, InvalidType
from nvfuser_go.fusion import Fusion, FusionExecutorCache
from nvfuser_go.locks import ForkSafeLock


class LRUCache:
    """Maps fusions to FusionExecutorCaches, equal fusions to one. May be used from several threads."""

    def __init__(self, max_fusions: int) -> None:
        if isinstance(max_fusions, bool) or not isinstance(max_fusions, int):
            raise InvalidType(f"LRUCache(): max_fusions must be an int, got {max_fusions!r}")
        if max_fusions < 1:
            raise InvalidArgument(f"LRUCache(): max_fusions is {max_fusions}; at least one fusion must fit")
        self._max_fusions = max_fusions
        self._entries: OrderedDict[str, tuple[FusionExecutorCache, list[int]]] = OrderedDict()  # the newest last
        self._lookups = self._hits = 0
        self._lock = ForkSafeLock()

    def cache_compile(self, fusion: Fusion) -> FusionExecutorCache:
        """The FusionExecutorCache of a fusion that equals this one: a known one, or a new one."""
        if not isinstance(fusion, Fusion):
            raise InvalidType(f"cache_compile(): fusion must be a Fusion, got {fusion!r}")
        key = fusion.text()
        with self._lock.held():
            self._lookups += 1
            if key in self._entries:
                self._hits += 1
                executor, hits = self._entries[key]
                hits[0] += 1
                self._entries.move_to_end(key)
                return executor
            executor = FusionExecutorCache(fusion, fusion_id=self._lookups - self._hits - 1)
            self._entries[key] = (executor, [0])
            if len(self._entries) > self._max_fusions:
                self._entries.popitem(last=False)
            return executor

    def num_fusions(self) -> int:
        """The number of fusions in the cache."""
        return len(self._entries)

    def stats(self) -> str:
        """The state of the cache as text: hits of each fusion, the most recently used first, and the hit rate."""
        with self._lock.held():
            lines = [f"Max Fusions Allowed: {self._max_fusions}"]
            if not self._entries:
                return "\n".join([*lines, "The fusion cache is empty.", ""])
            lines += [
                f"Total Fusions in Cache: {len(self._entries)}",
                f"Total Unique Fusions Compiled: {self._lookups - self._hits}",
                "Cache Hits by LRU ordering:",
                *(f"\t{i} -> {hits[0]} hits" for i, (_, hits) in enumerate(reversed(self._entries.values()))),
                f"Cache Lookups: {self._lookups}",
                f"Cache Hits: {self._hits}",
                f"Hit Rate: {100 * self._hits / self._lookups:g}%",
            ]
            return "\n".join([*lines, ""])


class LruFusionCache:
    """A decorator for a function that returns a FusionDefinition: equal definitions share one `fec`.

    The decorated function has the methods stats() and num_fusions() of LRUCache.
    """

    def __init__(self, max_fusions: int = 16384) -> None:
        self._cache = LRUCache(max_fusions)

    def __call__(self, define: Callable[..., FusionDefinition]) -> Callable[..., FusionDefinition]:
        cache = self._cache

        @functools.wraps(define)
        def cached(*args: Any, **kwargs: Any) -> FusionDefinition:
            fd = define(*args, **kwargs)
            if not isinstance(fd, FusionDefinition):
                raise InvalidType(f"LruFusionCache: {define.__qualname__}() must return a FusionDefinition, got {fd!r}")
            if not hasattr(fd, "fec"):
                fd._defined()
                fd.fec = cache.cache_compile(fd._fusion)
                del fd._fusion
            return fd

        cached.stats = cache.stats  # type: ignore[attr-defined]
        cached.num_fusions = cache.num_fusions  # type: ignore[attr-defined]
        return cached
