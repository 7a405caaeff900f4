"""Kept values in a directory, which processes may share and which outlives them.

One file for each value or range, in a directory for each key. A file takes its name when it is complete. Its time of
access says when it was used, its time of modification when the store was last asked. The file `size` counts all bytes,
those of files that are being written included; whoever finds that there is no room counts anew, and removes what was
used longest ago. Both happen under a lock of the directory, so that the bound holds between processes. A count that is
too high (files were replaced, removed, or left by a process that was killed) is put right there too.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain

from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import ByteRange, Suffix, Value
from aiozarr.stores.lock import Lock
from aiozarr.stores.wrappers.lasting import lasting_name
from aiozarr.stores.wrappers.record import Corrupt, Head, encode, read_head, read_value
from aiozarr.stores.wrappers.shelf import Kept, Place, Shelf, Watch, is_below

if sys.platform != "win32":
    import fcntl

_log = logging.getLogger("aiozarr")

_TEMPORARY = ".writing-"
_ABANDONED_SECONDS = 3600
_DIGITS = 20
_TRIES = 5
# Without O_NONBLOCK, opening a pipe that somebody put there would wait for its writer.
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class _Mark:
    path: str
    inode: int


@dataclass(frozen=True, slots=True)
class _File:
    used: int
    size: int
    path: str


class DiskShelf(Shelf):
    """Values in the files below `directory`, which is created when it is needed, for this user alone.

    Whatever cannot be read counts as missing; what cannot be written is not kept, and a log message says so once.
    """

    def __init__(self, max_bytes: int, directory: str) -> None:
        if os.name != "posix":
            raise UnsupportedOperationError("a cache in a directory needs a POSIX file system")
        super().__init__(max_bytes)
        self._directory = directory
        self._complained = False
        self._counting = Lock()

    @property
    def nbytes(self) -> int:
        return sum(file.size for file in self._files())

    # --- reading -------------------------------------------------------------------------------------------------

    def find(self, place: Place, byte_range: ByteRange | None) -> Kept | None:
        folder = self._folder(place)
        kept = self._load(f"{folder}/{_name(byte_range)}", None)
        return kept if kept is not None or byte_range is None else self._load(f"{folder}/{_name(None)}", byte_range)

    def _load(self, path: str, byte_range: ByteRange | None) -> Kept | None:
        with _opened(path) as descriptor:
            if descriptor is None:
                return None
            try:
                value = read_value(descriptor, byte_range)
                status = os.fstat(descriptor)
            except (Corrupt, OSError):
                _remove(path)
                return None
            _touch(descriptor, path, used=time.time_ns(), checked=status.st_mtime_ns)
            return Kept(value, status.st_mtime_ns / 1e9, _Mark(path, status.st_ino))

    def confirm(self, kept: Kept, checked: float) -> None:
        mark = kept.mark
        assert isinstance(mark, _Mark)
        with _opened(mark.path) as descriptor:
            # Another process may have put another version there.
            if descriptor is not None and os.fstat(descriptor).st_ino == mark.inode:
                _touch(descriptor, mark.path, used=time.time_ns(), checked=int(checked * 1e9))

    # --- writing -------------------------------------------------------------------------------------------------

    def keep(self, place: Place, byte_range: ByteRange | None, value: Value, checked: float, watch: Watch) -> None:
        parts = encode(lasting_name(place[0]), place[1], value)
        size = sum(map(len, parts))
        if size > self.max_bytes:
            return
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            temporary, descriptor = self._reserve(size)
            try:
                try:
                    for part in parts:
                        _write_all(descriptor, part)
                    _touch(descriptor, temporary, used=time.time_ns(), checked=int(checked * 1e9))
                finally:
                    os.close(descriptor)
                with self._lock:
                    if not watch.spoilt:
                        _rename(temporary, f"{self._folder(place)}/{_name(byte_range)}")
            finally:
                _remove(temporary)
        except OSError as error:
            if not self._complained:
                self._complained = True
                _log.warning("the cache directory %s cannot be written to: %s", self._directory, error)

    def _reserve(self, size: int) -> tuple[str, int]:
        """Make room for `size` bytes, and a file of that size that has it."""
        with self._turn() as counter:
            total = _read_count(counter)
            if total is None or total + size > self.max_bytes:
                total = self._make_room(size)
            _write_count(counter, total + size)
            temporary = f"{self._directory}/{_TEMPORARY}{secrets.token_hex(8)}"
            descriptor = os.open(temporary, _NEW, 0o600)
            try:
                # Whoever counts sees all of it, before it is written.
                os.ftruncate(descriptor, size)
            except OSError:
                os.close(descriptor)
                _remove(temporary)
                raise
            return temporary, descriptor

    def _make_room(self, size: int) -> int:
        """Remove what was used longest ago, a tenth more than is needed; return how many bytes are left."""
        files = sorted(self._files(), key=lambda file: file.used)
        total = sum([file.size for file in files])
        if total + size <= self.max_bytes:
            return total
        wanted = max(0, min(self.max_bytes - size, self.max_bytes * 9 // 10 - size))
        for file in files:
            if total <= wanted:
                break
            if _is_at_work(file):
                continue
            _remove(file.path)
            with suppress(OSError):  # the last one takes its directory along: empty ones take room too
                os.rmdir(os.path.dirname(file.path))
            total -= file.size
        return total

    # --- forgetting ----------------------------------------------------------------------------------------------

    def _drop(self, place: Place) -> None:
        _remove_all(self._folder(place))

    def _drop_below(self, store: Hashable, prefix: str) -> None:
        name = lasting_name(store)
        for folder in self._folders():
            head = next(filter(None, (_head(f"{folder}/{file}") for file in _names(folder))), None)
            if head is not None and is_below((head.store, head.key), name, prefix):
                _remove_all(folder)

    # --- the directory -------------------------------------------------------------------------------------------

    def _folder(self, place: Place) -> str:
        digest = sha256(f"{lasting_name(place[0])}\0{place[1]}".encode()).hexdigest()[:40]
        return f"{self._directory}/{digest[:2]}/{digest}"

    def _folders(self) -> Iterator[str]:
        for outer in _names(self._directory):
            if len(outer) == 2:
                for name in _names(f"{self._directory}/{outer}"):
                    yield f"{self._directory}/{outer}/{name}"

    def _files(self) -> Iterator[_File]:
        # Files take their names meanwhile: where they go is looked up after where they come from, and none is missed.
        for folder in chain([self._directory], self._folders()):
            for name in _names(folder):
                if folder != self._directory or name.startswith(_TEMPORARY):
                    with suppress(OSError):
                        status = os.stat(f"{folder}/{name}")
                        yield _File(status.st_atime_ns, status.st_size, f"{folder}/{name}")

    @contextmanager
    def _turn(self) -> Generator[int, None, None]:
        """Hold the lock of the directory, and give the open file that counts its bytes."""
        descriptor = os.open(f"{self._directory}/size", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            with self._counting:  # on a file system without locks the bound holds for this process alone
                _lock(descriptor)
                try:
                    yield descriptor
                finally:
                    _unlock(descriptor)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int) -> None:
    """Give the lock back now: a process that was forked meanwhile holds the file open too."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _name(byte_range: ByteRange | None) -> str:
    match byte_range:
        case None:
            return "all"
        case Suffix(length):
            return f"last-{length}"
        case _:
            return f"{byte_range.start}+{'' if byte_range.length is None else byte_range.length}"


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _head(path: str) -> Head | None:
    with _opened(path) as descriptor:
        if descriptor is not None:
            with suppress(Corrupt, OSError):
                return read_head(descriptor)[0]
    return None


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


def _touch(descriptor: int, path: str, *, used: int, checked: int) -> None:
    with suppress(OSError):
        os.utime(descriptor if os.utime in os.supports_fd else path, ns=(used, checked))


def _rename(temporary: str, path: str) -> None:
    for _ in range(_TRIES):
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.replace(temporary, path)
        except (FileNotFoundError, FileExistsError):  # somebody removes the directory meanwhile, because it is empty
            continue
        return


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _remove_all(folder: str) -> None:
    for name in _names(folder):
        _remove(f"{folder}/{name}")
    with suppress(OSError):
        os.rmdir(folder)


def _is_at_work(file: _File) -> bool:
    name = os.path.basename(file.path)
    return name.startswith(_TEMPORARY) and time.time() - file.used / 1e9 < _ABANDONED_SECONDS


def _write_all(descriptor: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(descriptor, data) :]


def _read_count(descriptor: int) -> int | None:
    text = os.pread(descriptor, _DIGITS + 1, 0)
    return int(text) if len(text) == _DIGITS and text.isdigit() else None


def _write_count(descriptor: int, total: int) -> None:
    os.pwrite(descriptor, b"%0*d" % (_DIGITS, total), 0)
