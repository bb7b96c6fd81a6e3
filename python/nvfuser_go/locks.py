"""Locks that a forked process finds open."""

import os
import threading
import weakref


class ForkSafeLock:
    """A lock of which a child of a fork has a new one: another thread of the parent may have held it, for ever then.

    `with lock.held():` takes it; a thread that holds it may take it again.
    """

    def __init__(self) -> None:
        self._renew()
        _locks.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def held(self) -> threading.RLock:  # type: ignore[valid-type] # a function in some versions of Python
        """What a `with` statement takes; it releases the same lock, also where it was renewed meanwhile."""
        return self._lock


_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in _locks:
        lock._renew()


os.register_at_fork(after_in_child=_after_fork)
