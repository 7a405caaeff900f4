"""How methods of a file system are called: coroutines on its own loop, blocking ones in threads."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from aiozarr.errors import ForkedProcessError
from aiozarr.stores.blocking import in_thread, to_the_end
from aiozarr.stores.fsspec.caches import method_of
from aiozarr.stores.fsspec.crossing import cross
from aiozarr.stores.fsspec.errors import translate
from aiozarr.stores.fsspec.native import try_once
from aiozarr.stores.fsspec.served import Described, Given, served
from aiozarr.stores.fsspec.traits import Traits, is_async
from aiozarr.stores.lock import Lock

STRIPES = 64
"""Locks of a file system of which calls for different paths may run at once."""


class Calls:
    """A file system as a store calls it, by the names of its blocking methods.

    A coroutine runs on the loop of the file system, whoever calls. A cancelled call is cancelled there and waited for.
    In threads, reads are abandoned by a cancellation and writes are waited for.
    """

    def __init__(self, recipe: Given | Described, traits: Traits) -> None:
        self._recipe = recipe
        self._traits = traits
        self._fs: Any = None
        self._pid = os.getpid()
        self._making = Lock()

    @property
    def fs(self) -> Any:
        """The file system, made now if it was not; in a forked child, one that is made there by the same arguments.

        Raises:
            ForkedProcessError: it cannot be made again.
        """
        # One, though several threads may be the first: the turns that calls take are those of one file system.
        with self._making:
            if self._pid != os.getpid():
                try:
                    self._fs = try_once(self._recipe.make_again())
                except Exception as error:
                    raise ForkedProcessError("the file system of the parent process cannot be made again") from error
                self._pid = os.getpid()
            elif self._fs is None:
                self._fs = try_once(_made_by(self._recipe))
            return self._fs

    async def _made(self) -> Any:
        if self._fs is None or self._pid != os.getpid():
            return await in_thread(lambda: self.fs)
        return self._fs

    async def read(self, name: str, path: str, *args: Any, fresh: bool = False, **kwargs: Any) -> Any:
        """Call the method `name`, which changes nothing; `fresh`: what is known of listings is forgotten before."""
        return await self._call(name, path, args, kwargs, fresh=fresh, write=False)

    async def write(self, name: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method `name`, which changes what is stored."""
        return await self._call(name, path, args, kwargs, fresh=False, write=True)

    async def _call(
        self, name: str, path: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, fresh: bool, write: bool
    ) -> Any:
        fs = await self._made()
        if is_async(fs):
            if not fs.loop.is_running():  # it was given, and the loop that its user gave it has ended since
                fs = self._fs = served(fs)

            async def there() -> Any:
                if fresh:
                    fs.invalidate_cache()
                return await getattr(fs, f"_{name}")(path, *args, **kwargs)

            return await cross(fs.loop, there)

        def now() -> Any:
            try:
                with self._turn(path):
                    if fresh:
                        fs.invalidate_cache()
                    return method_of(fs, name)(path, *args, **kwargs)
            except (StopIteration, asyncio.CancelledError) as error:
                # No future takes the one, and whoever waits would take the other for a cancellation of his own.
                raise RuntimeError(f"the file system raised {type(error).__name__}") from error

        return await (to_the_end(now) if write else in_thread(now))

    def _turn(self, path: str) -> AbstractContextManager[Any]:
        match self._traits.at_once:
            case "all":
                return nullcontext()
            case "paths":
                return _turns.of(self._fs)[hash(path) % STRIPES]
            case _:
                return _turns.of(self._fs)[0]


def _made_by(recipe: Given | Described) -> Any:
    try:
        return recipe.make()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        # An archive, or a repository: without it, no value in it is known to be missing.
        raise translate(error) from error


class _Turns:
    """The locks of blocking file systems: stores of one file system share them."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, list[Lock]] = WeakKeyDictionary()
        self._guard = Lock()

    def of(self, fs: Any) -> list[Lock]:
        with self._guard:
            locks = self._made.get(fs)
            if locks is None:
                locks = self._made[fs] = [Lock() for _ in range(STRIPES)]
            return locks


_turns = _Turns()
