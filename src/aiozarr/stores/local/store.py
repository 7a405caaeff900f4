"""A store in a directory of a local (POSIX) file system: one file per key."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from aiozarr.errors import (
    ChangedError,
    InvalidKeyError,
    PreconditionFailedError,
    ShortReadError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.model import (
    ByteRange,
    Entry,
    Precondition,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
    resolve_range,
)
from aiozarr.stores.blocking import BlockingStore, in_thread, iterate_in_thread
from aiozarr.stores.contract import Store, byte_view, check_max_bytes, percent_encoded, with_root
from aiozarr.stores.local.atomic_write import (
    TEMPORARY,
    NewFile,
    UnmetPreconditionError,
    prune,
    remove_file,
    replace_file,
    replace_files,
    version_of,
)
from aiozarr.stores.local.stored_file import IMPOSSIBLE_NAME, MISSING, absolute_path, store_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.stores.local.stored_file import StoredFile

# Without O_NONBLOCK, opening a named pipe in the directory would wait for its writer. It has no effect on files.
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


MAX_FAST_READ_BYTES = 64 << 20
"""`_read_now` reads larger files by `fetch_now`, which checks that they are regular files; a device claims any size."""


class LocalStore(BlockingStore):
    """The files below `root`, which is created by the first write.

    `root` is made absolute at once; `~` is not expanded. A write replaces the file, whole or not at all. Preconditions
    hold between all processes of the host, also against writes without one. Reads follow symbolic links, a write
    replaces a link, `erase` removes it. With `fsync=True`, a write or an erasure returns after the file and its
    directory are flushed.

    The key of a directory reads as missing. A key cannot be written below another key, or if other keys are below it.
    Names that begin with `.aiozarr-write~` are temporary files and not keys. A killed process may leave some, which
    `aiozarr.clean` and `erase_prefix` remove. Empty directories are prefixes of `list_dir`. On a file system that
    ignores case, keys that differ only in case are one file.
    """

    supports = Supports(
        writable=True,
        listable=True,
        conditional_reads=True,
        conditional_writes=True,
        conditional_erases=True,
        bounded_reads=True,
    )

    def __init__(self, root: str | os.PathLike[str], *, fsync: bool = False) -> None:
        if os.name != "posix":
            raise UnsupportedOperationError("LocalStore needs a POSIX file system")
        if not os.fspath(root):
            raise ValueError("the root of a local store must not be empty")
        self._root = absolute_path(root)
        self._base = self._root.rstrip(b"/") + b"/"
        self._fsync = fsync
        self._url = "file://" + percent_encoded(self._root)
        self._identity = (LocalStore, os.path.realpath(self._root))
        self._parent: tuple[Store, str] | None = None

    @property
    def root(self) -> str:
        """The absolute path of the root."""
        return os.fsdecode(self._root)

    @property
    def fsync(self) -> bool:
        """True if a write is flushed to the device before it returns."""
        return self._fsync

    @property
    def url(self) -> str:
        return self._url

    @property
    def identity(self) -> Hashable:
        return self._identity

    def object_identity(self, key: str) -> Hashable:
        """Return the path, with symbolic links above the root resolved."""
        return (LocalStore, os.path.join(self._identity[1], key.encode()))

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the store of the root's parent directory by its path; symbolic links are not resolved."""
        if self._parent is not None:
            return self._parent
        directory, name = os.path.split(self._root)
        try:
            text = name.decode()
        except UnicodeDecodeError:
            return None
        if not name:
            return None
        # Without links on the way to the root there are none on the way to its parent.
        real = directory if self._identity[1] == self._root else os.path.realpath(directory)
        base, url = directory.rstrip(b"/") + b"/", "file://" + percent_encoded(directory)
        parent = with_root(self, _root=directory, _base=base, _url=url, _identity=(LocalStore, real)), text
        if real == directory:
            self._parent = parent  # made once, because each creation looks at all folders up to `/`
        return parent

    def child_store(self, path: str) -> Store:
        """Return the store of the directory `path` below the root."""
        check_key(path, store=self._url)
        return LocalStore(os.fsdecode(self._base + path.encode()), fsync=self._fsync)

    def __reduce__(self) -> tuple[Any, ...]:
        return (partial(LocalStore, self.root, fsync=self._fsync), ())

    def __repr__(self) -> str:
        return f"LocalStore({self.root!r}{', fsync=True' if self._fsync else ''})"

    # --- blocking ------------------------------------------------------------------------------------------------

    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        path = self._base + check_key(key, store=self._url).encode()
        if TEMPORARY in path and _is_reserved(key):
            return None
        try:
            descriptor = os.open(path, _READ)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    return None
                version = version_of(status)
                if if_match is not None and version != if_match:
                    raise ChangedError("the value was replaced", store=self._url, key=key, range=range)
                size = status.st_size
                start, stop = resolve_range(size, range)
                if max_bytes is not None:
                    check_max_bytes(stop - start, max_bytes, store=self._url, key=key, range=range)
                head = os.pread(descriptor, stop - start, start)
                data = head if len(head) == stop - start else _read_rest(descriptor, head, start, stop - start)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in MISSING:
                return None
            raise store_error(error, "reading", store=self._url, key=key, range=range) from error
        except _TruncatedError as error:
            raise ShortReadError(str(error), store=self._url, key=key, range=range) from None
        return Value(data, version, size)

    def _read_now(self, key: str, *, max_bytes: int | None = None) -> Buffer | None:
        # A fast path for many small regular files; `fetch_now` handles all other cases.
        path = self._base + check_key(key, store=self._url).encode()
        if TEMPORARY in path:
            return super()._read_now(key, max_bytes=max_bytes)
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            return None
        except OSError:
            return super()._read_now(key, max_bytes=max_bytes)
        try:
            # `lseek` is cheaper than `fstat`, which fills in a record. Besides files only devices have an end.
            size = os.lseek(descriptor, 0, os.SEEK_END)
            if 0 < size <= (MAX_FAST_READ_BYTES if max_bytes is None else min(max_bytes, MAX_FAST_READ_BYTES)):
                data = os.pread(descriptor, size, 0)
                if len(data) == size:
                    return data
        except OSError:
            pass
        finally:
            os.close(descriptor)
        return super()._read_now(key, max_bytes=max_bytes)

    def _read_values_now(self, keys: Iterable[str], memory: memoryview, sizes: list[int | None]) -> None:
        # A fast path as that of `_read_now`, without a call for each file.
        base, url, open_file, read, close = self._base, self._url, os.open, os.preadv, os.close
        at, end = 0, len(memory)
        for key in keys:
            path = base + check_key(key, store=url).encode()
            size = 0
            try:
                descriptor = open_file(path, _READ)
                try:
                    # A short read ends at the end of the file. With 0 bytes it may be no regular file.
                    size = read(descriptor, [memory[at:]], 0)
                finally:
                    close(descriptor)
            except FileNotFoundError:
                sizes.append(None)
                continue
            except OSError:
                pass  # raised below, unless it means that nothing is stored
            if not 0 < size < end - at or TEMPORARY in path:
                before = len(sizes)
                super()._read_values_now((key,), memory[at:], sizes)
                if len(sizes) == before:
                    return
                size = sizes[-1] or 0
            else:
                sizes.append(size)
            at += size

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        path = self._path(key)
        data = byte_view(value)
        try:
            with self._translated("writing", key):
                return replace_file(path, data, precondition, self._fsync)
        except UnmetPreconditionError:
            prune(os.path.dirname(path), self._root)
            raise PreconditionFailedError(
                f"the precondition {precondition} is not met", store=self._url, key=key
            ) from None
        except StoreError:
            prune(os.path.dirname(path), self._root)  # the directories made for the value
            raise

    def _open_value(self, key: str) -> StoredFile | None:
        """Return the value of `key`, open for reading in pieces, or None if nothing is stored.

        Raises:
            StoreError: it could not be opened.
        """
        from aiozarr.stores.local.stored_file import StoredFile

        path = self._base + check_key(key, store=self._url).encode()
        if TEMPORARY in path and _is_reserved(key):
            return None
        with self._translated("reading", key, missing_ok=True):
            descriptor = os.open(path, _READ)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                return StoredFile(descriptor, status, self._url, key)
            os.close(descriptor)
        return None

    def _set_values_now(self, values: Sequence[tuple[str, Buffer]]) -> None:
        with self._translated("writing", None):
            replace_files([(self._path(key), byte_view(value)) for key, value in values], self._fsync)

    def _begin_file(self, key: str, size: int) -> LocalFile:
        """Return a file for the new value of `key`, of `size` bytes, to be written in parts by any threads.

        Raises:
            StoreError: it could not be created: the disk is full, for example.
        """
        path = self._path(key)
        with self._translated("writing", key):
            return LocalFile(self, key, NewFile(path, self._fsync, size))

    def erase_now(self, key: str) -> None:
        path = self._base + check_key(key, store=self._url).encode()
        if TEMPORARY in path and _is_reserved(key):
            return
        with self._translated("erasing", key, missing_ok=True):
            remove_file(path, self._fsync)
        prune(os.path.dirname(path), self._root)

    def erase_if_match_now(self, key: str, version: Version) -> None:
        path = self._path(key)
        try:
            with self._translated("erasing", key):
                remove_file(path, self._fsync, version)
        except UnmetPreconditionError:
            raise PreconditionFailedError("the value was replaced", store=self._url, key=key) from None
        prune(os.path.dirname(path), self._root)

    def _stat_now(self, key: str) -> Entry | None:
        """Do what `stat` does, in the calling thread."""
        path = self._base + check_key(key, store=self._url).encode()
        if TEMPORARY in path and _is_reserved(key):
            return None
        with self._translated("looking up", key, missing_ok=True):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                return Entry(key, status.st_size, version_of(status))
        return None

    # --- coroutines ----------------------------------------------------------------------------------------------

    async def stat(self, key: str) -> Entry | None:
        return await in_thread(lambda: self._stat_now(key))

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`. Unlike `erase`, it does not follow a link to a directory on the way to a key.

        Raises:
            StoreError: a key is behind such a link, or could not be removed.
        """
        from aiozarr.stores.local import walk

        checked = [check_key(key, store=self._url) for key in keys]
        paths = [self._base + key.encode() for key in checked if not _is_reserved(key)]
        try:
            async with aclosing(iterate_in_thread(walk.remove_keys(self._root, paths, self._fsync))) as steps:
                async for _ in steps:
                    pass
        except OSError as error:
            raise self._typed(error, "erasing", error.filename[len(self._base) :].decode()) from error

    async def erase_prefix(self, prefix: str) -> None:
        from aiozarr.stores.local import walk

        start = self._directory(prefix)
        if walk.segments_behind_link(self._base, start) > 1:
            raise StoreError(
                "the prefix is behind a link to a directory, where nothing is erased; erase the link instead",
                key=prefix,
                store=self._url,
            )
        with self._translated("erasing", prefix):
            async with aclosing(iterate_in_thread(walk.remove_tree(self._root, start, self._fsync))) as steps:
                async for _ in steps:
                    pass

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        from aiozarr.stores.local import walk

        start = self._directory(prefix)
        with self._translated("listing", prefix):
            async with aclosing(iterate_in_thread(walk.walk(self._base, start))) as batches:
                async for batch in batches:
                    for entry in batch:
                        yield entry

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        from aiozarr.stores.local import walk

        start = self._directory(prefix)
        with self._translated("listing", prefix):
            keys, directories = await in_thread(lambda: walk.list_one(start))
        return [prefix + name for name in keys], [f"{prefix}{name}/" for name in directories]

    async def _sweep(self, older_than: float | None = 86400.0) -> int:
        """Remove temporary files that were last written `older_than` seconds ago or earlier; return their number.

        None: files of writers that have ended, whatever their age. That needs a file system with `flock`.
        """
        from aiozarr.stores.local import walk

        with self._translated("sweeping", None):
            async with aclosing(iterate_in_thread(walk.sweep(self._root, older_than))) as steps:
                return sum([count async for count in steps])

    # --- keys and errors -----------------------------------------------------------------------------------------

    def _path(self, key: str) -> bytes:
        """Return the path to write `key` to."""
        encoded = check_key(key, store=self._url).encode()
        if TEMPORARY in encoded and _is_reserved(key):
            raise InvalidKeyError(
                "names beginning with .aiozarr-write~ are reserved for temporary files", key=key, store=self._url
            )
        return self._base + encoded

    def _directory(self, prefix: str) -> bytes:
        encoded = check_prefix(prefix, store=self._url).encode()
        return self._base + encoded[:-1] if encoded else self._root

    @contextmanager
    def _translated(self, doing: str, key: str | None, *, missing_ok: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            if missing_ok and error.errno in MISSING:
                return
            raise self._typed(error, doing, key) from error

    def _typed(self, error: OSError, doing: str, key: str | None) -> StoreError:
        if error.errno in IMPOSSIBLE_NAME:
            return InvalidKeyError("the file system cannot store this name", key=key, store=self._url)
        if error.errno == errno.ELOOP and doing == "erasing":
            reason = "a link to a directory is on the way to it, and nothing behind a link is erased; erase the link"
            return StoreError(reason, key=key, store=self._url)
        if error.errno == errno.EISDIR:
            return StoreError(f"{doing} failed: there are other keys below this one", key=key, store=self._url)
        if error.errno == errno.ENOTDIR:
            return StoreError(
                f"{doing} failed: a value is stored where a directory is needed", key=key, store=self._url
            )
        return store_error(error, doing, store=self._url, key=key)


def has_keys(store: LocalStore, prefix: str) -> bool:
    """Return whether any key of a store begins with `prefix`, in the calling thread.

    Raises:
        StoreError: a directory could not be read.
    """
    from aiozarr.stores.local import walk

    with store._translated("listing", prefix):
        batches = walk.walk(store._base, store._directory(prefix), 1)
        return any(not entry.fault for batch in batches for entry in batch)


class LocalFile:
    """A value that is written in parts, and stored as a whole by `commit`."""

    def __init__(self, store: LocalStore, key: str, file: NewFile) -> None:
        self._store = store
        self._key = key
        self._file = file

    def write(self, start: int, data: Buffer) -> None:
        """Write `data` at `start`.

        Raises:
            StoreError: it could not be written; `abort` must follow.
        """
        with self._store._translated("writing", self._key):
            self._file.write(start, byte_view(data))

    def commit(self, precondition: Precondition | None = None) -> Version:
        """Store the value.

        Raises:
            PreconditionFailedError: `precondition` does not hold; `abort` must follow.
            StoreError: it could not be stored; `abort` must follow.
        """
        try:
            with self._store._translated("writing", self._key):
                return self._file.commit(precondition)
        except UnmetPreconditionError:
            reason = f"the precondition {precondition} is not met"
            raise PreconditionFailedError(reason, store=self._store.url, key=self._key) from None

    def abort(self) -> None:
        """Store nothing, and remove the written parts."""
        self._file.abort()
        prune(os.path.dirname(self._store._path(self._key)), self._store._root)


class _TruncatedError(Exception):
    """The file became shorter while it was read."""


def _read_rest(descriptor: int, head: bytes, start: int, length: int) -> Buffer:
    """Read the rest, because one call returns at most 2 GiB, and a signal may interrupt it."""
    data = bytearray(length)
    data[: len(head)] = head
    view = memoryview(data)
    done = len(head)
    while done < length:
        count = os.preadv(descriptor, [view[done:]], start + done)
        if count == 0:
            raise _TruncatedError(f"the file ended {length - done} bytes early")
        done += count
    return view.toreadonly()


def _is_reserved(key: str) -> bool:
    return any(segment.startswith(".aiozarr-write~") for segment in key.split("/"))
