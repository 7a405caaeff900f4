"""Resources of one event loop, such as connection pools: shared by their users and closed with the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Protocol, TypeVar


class LoopResource(Protocol):
    """Something that holds connections of one loop."""

    closed: bool

    async def aclose(self) -> None: ...


R = TypeVar("R", bound=LoopResource)


class _SharedResource:
    """A resource and its users; the release of the last one closes it."""

    def __init__(self, resource: LoopResource) -> None:
        self.resource = resource
        # By id: stores with the same values are equal, and yet each is a user of its own.
        self.users: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class _LoopResources:
    def __init__(self) -> None:
        self.shared: dict[Hashable, _SharedResource] = {}
        self._guard = self._close_with_the_loop()
        # Starting an asynchronous generator registers it with the running loop, and `asyncio.run` closes the
        # registered ones before the loop: the one moment in which connections can still be closed properly.
        with contextlib.suppress(StopIteration):
            self._guard.__anext__().send(None)

    async def _close_with_the_loop(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.aclose()
            _by_loop.pop(asyncio.get_running_loop(), None)

    async def aclose(self) -> None:
        while self.shared:
            _, shared = self.shared.popitem()
            await shared.resource.aclose()


_by_loop: dict[asyncio.AbstractEventLoop, _LoopResources] = {}


def acquire(user: object, key: Hashable, make: Callable[[asyncio.AbstractEventLoop], R]) -> R:
    """Return the running loop's resource `key`, made if there is none, and register `user` as one of its users."""
    loop = asyncio.get_running_loop()
    resources = _by_loop.get(loop)
    if resources is None:
        resources = _LoopResources()
        for other in list(_by_loop):  # a copy: other threads have loops of their own
            if other.is_closed():
                _by_loop.pop(other, None)
        _by_loop[loop] = resources
    shared = resources.shared.get(key)
    if shared is None or shared.resource.closed:
        shared = resources.shared[key] = _SharedResource(make(loop))
    shared.users[id(user)] = user
    return shared.resource  # type: ignore[return-value]  # a key names one type of resource


async def release(user: object) -> None:
    """Release the resources that `user` acquired on the running loop, and close those without another user."""
    resources = _by_loop.get(asyncio.get_running_loop())
    if resources is None:
        return
    for key, shared in list(resources.shared.items()):
        if shared.users.pop(id(user), None) is not None and not shared.users:
            del resources.shared[key]
            await shared.resource.aclose()


_parents_resources: list[dict[asyncio.AbstractEventLoop, _LoopResources]] = []


def _after_fork() -> None:
    """Keep the parent's connections open in the child: closing them would send the servers an end of TLS."""
    for resources in _by_loop.values():
        for shared in resources.shared.values():
            shared.resource.closed = True
    _parents_resources.append(dict(_by_loop))
    _by_loop.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
