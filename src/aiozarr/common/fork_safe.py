"""Locks, modules, cached properties and numbers that a forked process can use: no thread of its parent holds them."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Generic, Self, TypeVar, overload
from weakref import WeakSet

T_co = TypeVar("T_co", covariant=True)


class ForkSafeLock:
    """A `threading.Lock` for `with`, replaced in a forked child, where the thread that held it does not exist."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.Lock()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.renew()


MAX_IMPORT_SECONDS = 1.0
"""A fork waits no longer: the other thread may import a module that the forking thread is importing."""


def _wait_for_imports() -> None:
    """Wait until no other thread imports a module. The child would wait forever for a module that it needs, too.

    Modules are imported when they are first used, so other threads may import some at any time.
    """
    # A detail of CPython, by the name of the module. Without it, a fork does not wait.
    locks: dict[str, Any] = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    deadline, own = monotonic() + MAX_IMPORT_SECONDS, {None, threading.get_ident()}
    while not {getattr(lock(), "owner", None) for lock in list(locks.values())} <= own and monotonic() < deadline:
        sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports, after_in_child=_after_fork)


class SerialNumbers:
    """The numbers 1, 2, 3 and so on, each once. In free-threaded builds `itertools.count` may repeat some."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = ForkSafeLock()

    def next(self) -> int:
        """Return the next number."""
        with self._lock:
            return next(self._numbers)


class fork_safe_cached_property(Generic[T_co]):  # noqa: N801  # used as a decorator, like functools.cached_property
    """A property that is computed once per instance and stored as an attribute of the instance.

    `functools.cached_property` holds a lock while it computes, before Python 3.12. A fork in another thread leaves this
    lock locked in the child, for all instances of the class. Without the lock two threads may both compute the value,
    so it must be the same for both.
    """

    def __init__(self, function: Callable[[Any], T_co]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T_co: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T_co:
        if instance is None:
            return self
        value = self._function(instance)
        # As an attribute, even of a frozen instance, because using `__dict__` makes a dictionary for each instance.
        object.__setattr__(instance, self._name, value)
        return value
