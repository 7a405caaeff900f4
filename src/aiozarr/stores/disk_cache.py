"""Cached values in a directory, which several processes may share and which outlives them.

Every value or range is a file, in a directory per key. A file gets its name when it is complete. Its access time is the
time of its last use, its modification time the time of the last check with the store. A file has a head that describes
the value, and blocks whose checksums are verified on reading:

    magic (8 bytes) · length of the head · CRC-32 of head and table · length of the data (8 bytes) · head (JSON) ·
    table (a CRC-32 per block) · data

Other numbers have 4 bytes; all are little-endian. A range is read, and verified, without the rest of the file.

The file `size` has the total of all bytes, those of unfinished files included. A process that finds no room counts the
files again and removes the least recently used ones. It does so under a lock of the directory, so that the limit holds
between processes. The new count also corrects a total that is too high, because files were replaced or removed, or left
by a killed process.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import struct
import sys
import time
import zlib
from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from typing import Any, Final, NamedTuple

from aiozarr.errors import PermissionDeniedError, UnsupportedOperationError
from aiozarr.model import ByteRange, Suffix, Value, Version, resolve_range
from aiozarr.stores.cache_backend import CacheBackend, CachedValue, InvalidationGuard, ObjectKey, is_below
from aiozarr.stores.contract import byte_view
from aiozarr.stores.memory_store import MemoryStore

if sys.platform != "win32":  # the constructor refuses Windows
    import fcntl

_log = logging.getLogger("aiozarr")

_TEMPORARY = ".writing-"
_ABANDONED_SECONDS = 3600
_DIGITS = 20
_MAX_RENAME_ATTEMPTS = 5
# No link is followed. Without O_NONBLOCK, opening a named pipe in the directory would wait for its writer.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_READ = os.O_RDONLY | _NO_LINK
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK

_MAGIC: Final = b"aiozarr\x02"
_BLOCK_BYTES: Final = 1 << 18
_START: Final = struct.Struct("<8sIIQ")


class _CorruptFileError(Exception):
    """The file is damaged, or of another format."""


class _CacheFile(NamedTuple):
    used: int
    size: int
    path: str


class DiskCache(CacheBackend):
    """Values in files below `directory`, which is created at the first write, with access for this user only.

    A directory that another user owns or can write is refused: its owner could replace the values, or link its files
    and folders to others of this user. Below it no other user can then make a link.

    A file that cannot be read, or whose head names another store or key, counts as missing. A value that cannot be
    written is not cached; the first such failure is logged.
    """

    def __init__(self, max_bytes: int, directory: str) -> None:
        if os.name != "posix":
            raise UnsupportedOperationError("a cache in a directory needs a POSIX file system")
        super().__init__(max_bytes)
        self._directory = directory
        self._failure_is_logged = False

    @property
    def nbytes(self) -> int:
        return sum(file.size for file in self._files())

    # --- reading -------------------------------------------------------------------------------------------------

    def lookup(self, key: ObjectKey, byte_range: ByteRange | None) -> CachedValue | None:
        if not self._is_trusted():
            return None
        folder = self._folder(key)
        cached = self._load(key, f"{folder}/{_file_name(byte_range)}", None)
        if cached is not None or byte_range is None:
            return cached
        return self._load(key, f"{folder}/{_file_name(None)}", byte_range)

    def _load(self, key: ObjectKey, path: str, byte_range: ByteRange | None) -> CachedValue | None:
        with _opened(path) as descriptor:
            if descriptor is None:
                return None
            try:
                owner, value = _read_value(descriptor, byte_range)
                status = os.fstat(descriptor)
            except (_CorruptFileError, OSError):
                if not _is_linked(os.path.dirname(path)):
                    _remove(path)
                return None
            if owner != (stable_name(key[0]), key[1]):
                return None
            _touch(descriptor, checked=status.st_mtime_ns)
            return CachedValue(value, status.st_mtime_ns / 1e9, (path, status.st_ino))

    def revalidate(self, cached: CachedValue, checked: float) -> None:
        path, inode = cached.location
        with _opened(path) as descriptor:
            # Another process may have replaced the file by another version.
            if descriptor is not None and os.fstat(descriptor).st_ino == inode:
                _touch(descriptor, checked=int(checked * 1e9))

    # --- writing -------------------------------------------------------------------------------------------------

    def insert(
        self, key: ObjectKey, byte_range: ByteRange | None, value: Value, checked: float, guard: InvalidationGuard
    ) -> None:
        pieces = _encode(stable_name(key[0]), key[1], value)
        size = sum(map(len, pieces))
        if size > self.max_bytes:
            return
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            self._is_trusted()
            temporary, descriptor = self._reserve(size)
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    for piece in pieces:
                        while len(piece):
                            piece = piece[file.write(piece) :]
                    _touch(descriptor, checked=int(checked * 1e9))
                with self._lock:
                    if not guard.invalidated:
                        _rename(temporary, f"{self._folder(key)}/{_file_name(byte_range)}")
            finally:
                _remove(temporary)
        except PermissionDeniedError:
            raise
        except OSError as error:
            if not self._failure_is_logged:
                self._failure_is_logged = True
                _log.warning("the cache directory %s cannot be written to: %s", self._directory, error)

    def _reserve(self, size: int) -> tuple[str, int]:
        """Make room for `size` bytes and reserve it by a temporary file, whose path and descriptor are returned."""
        with self._locked_total() as descriptor_of_total:
            text = os.pread(descriptor_of_total, _DIGITS + 1, 0)
            total = int(text) if len(text) == _DIGITS and text.isdigit() else None
            if total is None or total + size > self.max_bytes:
                total = self._make_room(size)
            os.pwrite(descriptor_of_total, b"%0*d" % (_DIGITS, total + size), 0)
            temporary = f"{self._directory}/{_TEMPORARY}{secrets.token_hex(8)}"
            descriptor = os.open(temporary, _NEW, 0o600)
            try:
                # A count of the files includes it before it is written.
                os.ftruncate(descriptor, size)
            except OSError:
                os.close(descriptor)
                _remove(temporary)
                raise
            return temporary, descriptor

    def _make_room(self, size: int) -> int:
        """Remove the least recently used files, a tenth more than needed; return how many bytes are left."""
        files = sorted(self._files(), key=lambda file: file.used)
        total = sum([file.size for file in files])
        if total + size <= self.max_bytes:
            return total
        target = max(0, min(self.max_bytes - size, self.max_bytes * 9 // 10 - size))
        for file in files:
            if total <= target:
                break
            folder, name = os.path.split(file.path)
            if name.startswith(_TEMPORARY) and time.time() - file.used / 1e9 < _ABANDONED_SECONDS:
                continue  # it is being written
            _remove(file.path)
            with suppress(OSError):  # an empty directory takes room too
                os.rmdir(folder)
            total -= file.size
        return total

    # --- removal -------------------------------------------------------------------------------------------------

    def _remove_object(self, key: ObjectKey) -> None:
        _remove_all(self._folder(key))

    def _remove_prefix(self, store: Hashable, prefix: str) -> None:
        name = stable_name(store)
        for folder in self._folders():
            owner = next(filter(None, (_owner_of(f"{folder}/{file}") for file in _names(folder))), None)
            if owner is not None and is_below(owner, name, prefix):
                _remove_all(folder)

    # --- the directory -------------------------------------------------------------------------------------------

    def _is_trusted(self) -> bool:
        """Return whether the directory exists, and check that other users cannot own it, write to it or redirect it.

        Raises:
            PermissionDeniedError: they can.
        """
        try:
            link, status = os.lstat(self._directory), os.stat(self._directory)
        except OSError:
            return False
        user, where = os.geteuid(), f"the cache directory {self._directory}"
        if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, user):
            raise PermissionDeniedError(
                f"{where} is a link created by user {link.st_uid}; choose a directory that does not exist yet"
            )
        if status.st_uid != user:
            raise PermissionDeniedError(
                f"{where} belongs to user {status.st_uid}; choose a directory that belongs to user {user}, or one "
                "that does not exist yet"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionDeniedError(
                f"other users can write to {where} of user {status.st_uid} (mode "
                f"{stat.S_IMODE(status.st_mode):04o}); choose a directory that does not exist yet, or one with "
                "mode 0700"
            )
        return True

    def _folder(self, key: ObjectKey) -> str:
        digest = sha256(f"{stable_name(key[0])}\0{key[1]}".encode()).hexdigest()[:40]
        return f"{self._directory}/{digest[:2]}/{digest}"

    def _folders(self) -> Iterator[str]:
        # Links are not followed, because removals use these folders.
        for outer in _names(self._directory):
            folder = f"{self._directory}/{outer}"
            if len(outer) == 2 and not os.path.islink(folder):
                yield from [path for name in _names(folder) if not os.path.islink(path := f"{folder}/{name}")]

    def _files(self) -> Iterator[_CacheFile]:
        # Files are renamed meanwhile, so the target directories are read after the source directory, and none is
        # missed.
        for folder in chain([self._directory], self._folders()):
            for name in _names(folder):
                if folder != self._directory or name.startswith(_TEMPORARY):
                    with suppress(OSError):
                        status = os.stat(f"{folder}/{name}", follow_symlinks=False)
                        yield _CacheFile(status.st_atime_ns, status.st_size, f"{folder}/{name}")

    @contextmanager
    def _locked_total(self) -> Generator[int, None, None]:
        """Hold the lock of the directory, and yield the descriptor of the file with the total."""
        descriptor = os.open(f"{self._directory}/size", os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
        try:
            with suppress(OSError):  # on a file system without locks the limit is approximate
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                yield descriptor
            finally:
                # Closing is not enough, because a process that was forked meanwhile has the file open too.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


def _file_name(byte_range: ByteRange | None) -> str:
    if byte_range is None:
        return "all"
    if isinstance(byte_range, Suffix):
        return f"last-{byte_range.length}"
    return f"{byte_range.start}+{'' if byte_range.length is None else byte_range.length}"


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


@contextmanager
def _opened(path: str) -> Generator[int | None, None, None]:
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _touch(descriptor: int, *, checked: int) -> None:
    """Set the time of the last use to now, and that of the last check to `checked`, in nanoseconds."""
    with suppress(OSError):
        os.utime(descriptor, ns=(time.time_ns(), checked))


def _rename(temporary: str, path: str) -> None:
    for _ in range(_MAX_RENAME_ATTEMPTS):
        # Another process may remove a directory because it is empty.
        with suppress(FileNotFoundError, FileExistsError):
            folder = os.path.dirname(path)
            for directory in (os.path.dirname(folder), folder):  # `makedirs` gives its mode to the last one only
                os.makedirs(directory, mode=0o700, exist_ok=True)
            os.replace(temporary, path)
            return


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _is_linked(folder: str) -> bool:
    """Return whether the folder of an object is a link or in one, so that nothing there is removed."""
    return os.path.islink(folder) or os.path.islink(os.path.dirname(folder))


def _remove_all(folder: str) -> None:
    if _is_linked(folder):
        return
    for name in _names(folder):
        _remove(f"{folder}/{name}")
    with suppress(OSError):
        os.rmdir(folder)


# --- files ---------------------------------------------------------------------------------------------------------


def _encode(store: str, key: str, value: Value) -> list[memoryview]:
    """Return the bytes of the file, in pieces."""
    data = byte_view(value.data)
    etag, generation = (None, None) if value.version is None else (value.version.etag, value.version.generation)
    head = json.dumps([store, key, etag, generation, value.size]).encode()
    table = b"".join(_checksum(data[at : at + _BLOCK_BYTES]) for at in range(0, len(data), _BLOCK_BYTES))
    start = _START.pack(_MAGIC, len(head), zlib.crc32(head + table), len(data))
    return [memoryview(start + head + table), data]


def _read_head(descriptor: int) -> tuple[list[Any], bytes, int, int]:
    """Return head and table of an open file, the offset of its data and their length.

    Raises:
        _CorruptFileError: the file is damaged, or of another format or length.
        OSError: it could not be read.
    """
    magic, head_bytes, checksum, length = _START.unpack(_read_exactly(descriptor, 0, _START.size))
    origin = _START.size + head_bytes + 4 * -(-length // _BLOCK_BYTES)
    if magic != _MAGIC or os.fstat(descriptor).st_size != origin + length:
        raise _CorruptFileError
    text = _read_exactly(descriptor, _START.size, origin - _START.size)
    if zlib.crc32(text) != checksum:
        raise _CorruptFileError
    return json.loads(text[:head_bytes]), text[head_bytes:], origin, length


def _read_value(descriptor: int, byte_range: ByteRange | None) -> tuple[tuple[str, str], Value]:
    """Return the store and key of an open file, and the bytes `byte_range` of its data. Raises what `_read_head` does.

    Files of this version have valid heads if the checksum holds, because nobody else can write to the directory.
    """
    (store, key, etag, generation, size), table, origin, length = _read_head(descriptor)
    version = None if etag is None and generation is None else Version(etag, generation)
    start, stop = resolve_range(length, byte_range)
    if start >= stop:
        return (store, key), Value(b"", version, size)
    first = start // _BLOCK_BYTES
    begin, end = first * _BLOCK_BYTES, min(-(-stop // _BLOCK_BYTES) * _BLOCK_BYTES, length)
    data = memoryview(_read_exactly(descriptor, origin + begin, end - begin))
    for number, at in enumerate(range(0, len(data), _BLOCK_BYTES), first):
        if _checksum(data[at : at + _BLOCK_BYTES]) != table[4 * number : 4 * number + 4]:
            raise _CorruptFileError
    return (store, key), Value(data[start - begin : stop - begin], version, size)


def _owner_of(path: str) -> tuple[str, str] | None:
    """Return the store and key of a file, or None if it cannot be read."""
    with _opened(path) as descriptor:
        if descriptor is not None:
            with suppress(_CorruptFileError, OSError):
                store, key, *_ = _read_head(descriptor)[0]
                return store, key
    return None


def _read_exactly(descriptor: int, at: int, length: int) -> bytes:
    data = os.pread(descriptor, length, at)
    while len(data) < length:  # one call returns at most 2 GiB
        more = os.pread(descriptor, length - len(data), at + len(data))
        if not more:
            raise _CorruptFileError
        data += more
    return data


def _checksum(block: memoryview) -> bytes:
    return zlib.crc32(block).to_bytes(4, "little")


_PROCESS_TOKEN = secrets.token_hex(16)


@lru_cache(maxsize=256)
def stable_name(identity: Hashable) -> str:
    """Return a name that is equal for equal identities, and different for others.

    The names of stores of one process, such as `MemoryStore`, are unique to this process.
    """
    return sha256(_described(identity).encode("utf-8", "surrogatepass")).hexdigest()


def _described(part: object) -> str:
    if isinstance(part, tuple):
        return f"({','.join(map(_described, part))},)"
    if isinstance(part, str | bytes | int | float | None):
        return repr(part)
    name = f"{part.__module__}.{part.__qualname__}" if isinstance(part, type) else repr(part)
    lasts = isinstance(part, type) and not issubclass(part, MemoryStore)
    return name if lasts else f"{name} of process {os.getpid()} {_PROCESS_TOKEN}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stable_name.cache_clear)
