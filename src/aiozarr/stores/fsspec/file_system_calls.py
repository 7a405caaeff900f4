"""Calls methods of a file system: coroutines on its own loop for callers on another, blocking methods in threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from aiozarr.common.concurrency import retrieve_error
from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import ForkedProcessError, StoreError
from aiozarr.stores.blocking import in_thread, in_thread_uncancelled
from aiozarr.stores.fsspec.errors import translate
from aiozarr.stores.fsspec.instances import FileSystemTraits, InstanceSource, UrlSource, is_async, usable_instance

T = TypeVar("T")


async def run_on_loop(there: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `make` returns on the loop `there`, and return its result here.

    A cancellation is passed on and waited for, so the coroutine has ended when it is raised here.

    Raises:
        StoreError: the loop `there` has ended, or the coroutine was cancelled there.
    """
    here = asyncio.get_running_loop()
    if here is there:
        return await make()
    call = _LoopCall(there, here, make)
    try:
        there.call_soon_threadsafe(call.begin)
    except RuntimeError as error:
        raise StoreError("the event loop of the file system has ended") from error
    try:
        await call.answer
    except BaseException as stop:
        with contextlib.suppress(RuntimeError):  # the loop there has ended, and with it the coroutine
            there.call_soon_threadsafe(call.cancel)
            while not call.ended and not isinstance(stop, GeneratorExit):
                call.answer = here.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await call.answer
        raise
    task = call.task
    if task is None or task.cancelled():
        raise StoreError("the request was cancelled on the event loop of the file system", retryable=True)
    return task.result()


class _LoopCall(Generic[T]):
    def __init__(
        self,
        there: asyncio.AbstractEventLoop,
        here: asyncio.AbstractEventLoop,
        make: Callable[[], Coroutine[Any, Any, T]],
    ) -> None:
        self._there, self._here, self._make = there, here, make
        self.task: asyncio.Task[T] | None = None
        self.ended = False
        self.answer: asyncio.Future[None] = here.create_future()

    def begin(self) -> None:
        """Run on the loop `there`, before `cancel`: callbacks run in the order in which they were posted."""
        self.task = self._there.create_task(self._make())
        self.task.add_done_callback(self._report_end)

    def cancel(self) -> None:
        """Run on the loop `there`."""
        if self.task is not None:
            self.task.cancel()

    def _report_end(self, task: asyncio.Task[T]) -> None:
        retrieve_error(task)  # the caller may have been cancelled
        with contextlib.suppress(RuntimeError):  # the loop of a cancelled caller may be closed
            self._here.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self.ended = True
        if not self.answer.done():
            self.answer.set_result(None)


STRIPES = 64
"""Number of locks of a file system whose calls for different paths may run at once."""


class FileSystemCalls:
    """Calls a file system by the names of its blocking methods.

    A coroutine runs on the loop of the file system. A cancelled call is cancelled there and waited for. In threads, a
    cancelled read is abandoned and a cancelled write is waited for.
    """

    def __init__(self, recipe: InstanceSource | UrlSource, traits: FileSystemTraits) -> None:
        self._recipe = recipe
        self._traits = traits
        self._fs: Any = None
        self._pid = os.getpid()
        self._create_lock = ForkSafeLock()

    @property
    def fs(self) -> Any:
        """The file system, created at the first access; in a forked child, a new one by the same arguments.

        Raises:
            ForkedProcessError: it cannot be created again.
        """
        # Threads that call at once must get the same instance, because the locks belong to it.
        with self._create_lock:
            if self._pid != os.getpid():
                try:
                    self._fs = self._recipe.recreate()
                except Exception as error:
                    raise ForkedProcessError("the file system of the parent process cannot be created again") from error
                self._pid = os.getpid()
            elif self._fs is None:
                self._fs = _create(self._recipe)
            return self._fs

    async def _instance(self) -> Any:
        if self._fs is None or self._pid != os.getpid():
            return await in_thread(lambda: self.fs)
        return self._fs

    async def read(self, name: str, path: str, *args: Any, fresh: bool = False, **kwargs: Any) -> Any:
        """Call the method `name`, which only reads; with `fresh`, cached listings are invalidated before."""
        return await self._call(name, path, args, kwargs, fresh=fresh, write=False)

    async def write(self, name: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method `name`, which writes."""
        return await self._call(name, path, args, kwargs, fresh=False, write=True)

    async def _call(
        self, name: str, path: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, fresh: bool, write: bool
    ) -> Any:
        fs = await self._instance()
        if is_async(fs):
            if not fs.loop.is_running():  # the loop of an instance from the user has ended
                fs = self._fs = usable_instance(fs)

            async def there() -> Any:
                if fresh:
                    fs.invalidate_cache()
                return await getattr(fs, f"_{name}")(path, *args, **kwargs)

            return await run_on_loop(fs.loop, there)

        def now() -> Any:
            try:
                with self._lock_for(path):
                    if fresh:
                        fs.invalidate_cache()
                    return method_of(fs, name)(path, *args, **kwargs)
            except (StopIteration, asyncio.CancelledError) as error:
                # A future refuses StopIteration, and the caller would mistake CancelledError for its own cancellation.
                raise RuntimeError(f"the file system raised {type(error).__name__}") from error

        return await (in_thread_uncancelled(now) if write else in_thread(now))

    def _lock_for(self, path: str) -> AbstractContextManager[Any]:
        match self._traits.at_once:
            case "all":
                return nullcontext()
            case "paths":
                return _path_locks.of(self._fs)[hash(path) % STRIPES]
            case _:
                return _path_locks.of(self._fs)[0]


def _create(recipe: InstanceSource | UrlSource) -> Any:
    try:
        return recipe.make()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        # A missing archive or repository does not mean that a value in it is missing.
        raise translate(error) from error


class _PathLocks:
    """The locks of blocking file systems, shared by all stores of one file system."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[Any, list[ForkSafeLock]] = WeakKeyDictionary()
        self._guard = ForkSafeLock()

    def of(self, fs: Any) -> list[ForkSafeLock]:
        with self._guard:
            locks = self._locks.get(fs)
            if locks is None:
                locks = self._locks[fs] = [ForkSafeLock() for _ in range(STRIPES)]
            return locks


_path_locks = _PathLocks()


def method_of(fs: Any, name: str) -> Callable[..., Any]:
    """Return the method `name` of a blocking file system; for a cache, a variant that handles failures."""
    from fsspec.implementations.cached import CachingFileSystem

    if name in _METHODS and isinstance(fs, CachingFileSystem):
        return lambda path, **arguments: _METHODS[name](fs, path, **arguments)
    method: Callable[..., Any] = getattr(fs, name)
    return method


def _info(fs: Any, path: str, **arguments: Any) -> Mapping[str, Any]:
    """Use the file system below, because `filecache` and `blockcache` need a listing of the directory."""
    info: Mapping[str, Any] = method_of(fs.fs, "info")(path, **arguments)
    return {**info, "size": None} if fs.compression else info


def _cat_file(fs: Any, path: str, **arguments: Any) -> Any:
    """Read through the cache; a failure of the file system below is raised unchanged."""
    from fsspec.implementations.cached import WholeFileCacheFileSystem

    path = fs._strip_protocol(path)
    if isinstance(fs, WholeFileCacheFileSystem):
        if not fs._check_file(path):
            # A cache reports any failure as a missing file.
            method_of(fs.fs, "info")(path) if fs.compression else _download(fs, path)
        try:
            return fs.cat_file(path, **arguments)
        except FileNotFoundError as error:
            raise _lost() from error
        except Exception:
            _forget(fs, path)
            raise
    try:
        return fs.cat_file(path, **arguments)
    except Exception:
        # Blocks are marked as cached before they are received, so the next reader would get zeros.
        _forget(fs, path)
    return method_of(fs.fs, "cat_file")(path, **arguments)


def _download(fs: Any, path: str) -> None:
    """Download the whole file into the cache, or nothing, so that a truncated transfer leaves no file."""
    from fsspec.implementations.cached import SimpleCacheFileSystem

    fs._mkcache()
    with tempfile.TemporaryDirectory(dir=fs.storage[-1], prefix="part-") as folder:
        part = os.path.join(folder, "part")
        try:
            fs.fs.get_file(path, part)
        except FileNotFoundError as error:
            if error.filename == part:
                raise _lost() from error
            raise
        except FileExistsError:
            method_of(fs.fs, "info")(path)  # the memory file system raises it for a path below a file
            raise
        if not os.path.isfile(part):
            if method_of(fs.fs, "info")(path).get("type") == "directory":
                raise IsADirectoryError(path)
            raise StoreError("the file system downloaded no file")
        if isinstance(fs, SimpleCacheFileSystem):
            os.replace(part, os.path.join(fs.storage[-1], fs._mapper(path)))
        else:
            os.replace(part, fs._make_local_details(path))
            fs.save_cache()


def _forget(fs: Any, path: str) -> None:
    """Remove the file from the cache."""
    from fsspec.implementations.cached import SimpleCacheFileSystem

    with contextlib.suppress(Exception):  # the folder may be read-only, or missing
        if isinstance(fs, SimpleCacheFileSystem):
            os.remove(os.path.join(fs.storage[-1], fs._mapper(path)))
        else:
            fs.pop_from_cache(path)


def _lost() -> StoreError:
    """Return the error for a file that is missing in the cache itself."""
    return StoreError("the cache lost a file", retryable=True)


_METHODS: dict[str, Callable[..., Any]] = {"info": _info, "cat_file": _cat_file}
