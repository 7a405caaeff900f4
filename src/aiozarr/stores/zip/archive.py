"""A local archive that all stores of this process share; `zipfile` writes it into a temporary file beside it.

The temporary file replaces the archive when a store is closed. A killed process leaves the archive unchanged, and the
temporary file, which `aiozarr.clean` removes.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
import struct
import warnings
import weakref
import zipfile
from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import (
    AiozarrError,
    ForkedProcessError,
    PreconditionFailedError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.model import IfAbsent, IfMatch, Precondition, Version
from aiozarr.stores.local.atomic_write import NewFile, UnmetPreconditionError
from aiozarr.stores.zip.contents import ArchiveFile, Contents, load, pieces_of, token_of
from aiozarr.stores.zip.format import Member

# Without O_NONBLOCK, opening a named pipe would wait for its writer.
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class Archive:
    """The state that all stores of one path share. Thread-safe."""

    def __init__(self, path: bytes, url: str) -> None:
        self.path = path
        self.url = url
        self.lock = ForkSafeLock()
        self._read: Contents | None = None
        self._writer: _Writer | None = None
        self._finalizer: weakref.finalize[[_Writer], Archive] | None = None
        self._lost: Exception | None = None

    def contents(self) -> Contents:
        """Return the present contents, uncommitted changes included.

        Raises:
            StoreError: the file is not a readable archive, or was removed after it was read.
            OSError: the file cannot be opened.
        """
        writer = self._writer
        if writer is not None and writer.process == os.getpid():
            return writer.contents
        read = self._read
        try:
            token = token_of(os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            if read is not None:
                raise StoreError("the archive was removed while it was in use", store=self.url) from None
            return Contents({})
        if read is None or read.token != token:
            read = self._read = load(os.open(self.path, _READ), self.url)
        return read

    @property
    def has_changes(self) -> bool:
        """True if the archive has changes that its file does not have yet."""
        return self._writer is not None

    def begin(self, *, exclusive: bool) -> None:
        """Start to write an empty archive.

        Raises:
            PreconditionFailedError: `exclusive`, and the archive exists.
            OSError: the archive cannot be written there.
        """
        with self.lock:
            if exclusive and (self._writer is not None or os.path.lexists(self.path)):
                raise PreconditionFailedError("the archive already exists", store=self.url)
            if os.path.isdir(self.path):  # fail now rather than when all is written
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._discard()
            self._open_writer(Contents({}), IfAbsent() if exclusive else None)

    def put(
        self, key: str, data: memoryview, method: int, holds: Callable[[Contents, Member | None], bool] | None = None
    ) -> tuple[Contents, Member] | None:
        """Write a value under `key`. Returns: None if `holds` is false for the present one; nothing was written."""
        with self.lock:
            contents = self.contents()
            if holds is not None and not holds(contents, contents.members.get(key)):
                return None
            writer = self._to_write()
            return writer.contents, writer.put(key, data, method)

    def drop(self, keys: list[str], holds: Callable[[Contents, Member | None], bool] | None = None) -> bool:
        """Remove the values of `keys`; missing ones are skipped.

        Returns: False if `holds` is false for the present value of one; nothing was removed.
        """
        with self.lock:
            contents = self.contents()
            if holds is not None and not all(holds(contents, contents.members.get(key)) for key in keys):
                return False
            present = {key for key in keys if key in contents.members}
            if present:
                self._to_write().drop(present)
        return True

    def commit(self, *, fsync: bool = False) -> None:
        """Replace the archive by the changed one, whole or not at all. After an error this can be called again."""
        with self.lock:
            writer = self._writer
            if writer is None and self._lost is not None:
                raise self._lost
            if writer is None or writer.process != os.getpid():
                return
            writer.commit(fsync=fsync)
            self._release()
            self._read = writer.contents

    def give_up(self, error: Exception) -> None:
        """Remove the temporary file, and the changes with it, after a commit has failed with `error`.

        Other stores with changes get the same error when they are closed.
        """
        with self.lock:
            if self._writer is not None:
                self._discard()
                self._lost = error

    def release(self) -> None:
        """Close the file that is read; the next read opens it again."""
        self._read = None

    def _to_write(self) -> _Writer:
        if self._writer is None:
            contents = self.contents()
            self._open_writer(contents, IfMatch(Version(contents.token)) if contents.file else IfAbsent())
        writer = self._writer
        assert writer is not None
        if writer.process != os.getpid():
            raise ForkedProcessError(
                "the parent process is writing this archive; close it before the fork", store=self.url
            )
        return writer

    def _open_writer(self, contents: Contents, precondition: Precondition | None) -> None:
        self._writer = writer = _Writer(self.path, self.url, contents, precondition)
        self._finalizer = weakref.finalize(self, _commit_at_exit, writer)
        self._lost = None

    def _discard(self) -> None:
        writer = self._writer
        self._release()
        if writer is not None:
            writer.abort()

    def _release(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self._writer = self._finalizer = None


def discard_unfinished() -> None:
    """Remove the temporary files of archives that were not closed because the process ends without its exit hooks."""
    for writer in list(_writers):
        writer.abort()


def _commit_at_exit(writer: _Writer) -> None:
    """Commit for stores that were not closed, when they are collected or the interpreter exits."""
    if writer.process != os.getpid():
        return
    outcome = ""
    try:
        writer.commit(fsync=False)
    except (OSError, AiozarrError) as error:
        outcome = f"; its changes are lost: {error}"
        writer.abort()
    message = f"the archive {writer.url} was not closed{outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=1)


_writers: WeakSet[_Writer] = WeakSet()


class ArchiveOutput(io.FileIO):
    """The file that `zipfile` writes to. It has no buffer, so values are read with `os.pread` meanwhile."""

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        while rest:
            rest = rest[super().write(rest) :]
        return len(data)


class _ZipFile(zipfile.ZipFile):
    def __del__(self) -> None:
        """Write nothing. In a forked process the file is the parent's."""


class _Writer:
    """A temporary file that becomes the archive.

    The directory that is written at the end names the members of `contents`. Bytes of replaced and erased members stay
    in the file, and no entry refers to them.
    """

    def __init__(self, path: bytes, url: str, contents: Contents, precondition: Precondition | None) -> None:
        self.url = url
        self.process = os.getpid()
        self._precondition = precondition
        self._file = NewFile(path, fsync=False)
        _writers.add(self)
        try:
            file = ArchiveFile(os.dup(self._file.descriptor), url)
            self._output = ArchiveOutput(file.descriptor, "r+", closefd=False)
            if contents.file is not None:
                for piece in pieces_of(contents.file, 0, os.fstat(contents.file.descriptor).st_size):
                    self._output.write(piece)
            self._zip = self._open_zip(contents)
            # With a new token no earlier version matches.
            token = secrets.token_hex(8)
            self.contents = Contents(dict(contents.members), dict(contents.starts), file=file, token=token)
            for member in contents.members.values():
                if member.raw != member.key.encode():
                    # `zipfile` would change the name in the directory only, and not in the member's header.
                    self.put(member.key, contents.read(member, 0, member.size, member.size, url), member.method)
        except BaseException:
            self.abort()
            raise

    def _open_zip(self, contents: Contents) -> zipfile.ZipFile:
        try:
            archive = _ZipFile(self._output, "a")
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise UnsupportedOperationError(
                f"zipfile cannot append to this archive: {error}", store=self.url
            ) from error
        if {member.offset for member in contents.members.values()} - {info.header_offset for info in archive.filelist}:
            raise UnsupportedOperationError("zipfile cannot append to this archive; copy it first", store=self.url)
        return archive

    def put(self, key: str, data: memoryview | bytes, method: int) -> Member:
        info = zipfile.ZipInfo(key)  # dated 1980-01-01, so that equal values give equal archives
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        self._zip.NameToInfo.pop(key, None)  # zipfile warns of a second member, but only one is in the directory
        self._zip.writestr(info, data, method)
        sizes = (info.CRC, info.compress_size, info.file_size)
        member = Member(key, key.encode(), info.header_offset, self._output.tell(), method, *sizes, extra=0)
        # Only after the write, so that nothing has changed if the disk is full.
        self.contents.members[key] = member
        self.contents.keys_changed()
        return member

    def drop(self, keys: set[str]) -> None:
        for key in keys:
            del self.contents.members[key]
        self.contents.keys_changed()

    def commit(self, *, fsync: bool) -> None:
        """Write the directory, then replace the archive.

        Raises:
            PreconditionFailedError: a new archive was to be created and one exists; or another process has replaced the
                archive since it was read.
            OSError: the archive could not be written; it is unchanged, and this can be called again.
        """
        infos = {info.header_offset: info for info in self._zip.filelist}
        self._zip.filelist[:] = [infos[member.offset] for member in self.contents.members.values()]
        self._zip.comment = self._zip.comment  # a change, so that the directory is written
        copy(self._zip).close()  # `close` cannot be called again after an error
        self._file.fsync = fsync
        try:
            version = self._file.commit(self._precondition)
        except UnmetPreconditionError:
            absent = isinstance(self._precondition, IfAbsent)
            reason = "exists already" if absent else "was changed by another process since it was read"
            raise PreconditionFailedError(f"the archive {reason}", store=self.url) from None
        self.contents.token = version.etag or ""

    def abort(self) -> None:
        """Remove the temporary file, unless it is the parent's of a forked process."""
        if self.process == os.getpid():
            self._file.abort()


class _OpenArchives:
    """The archives of this process by their real paths, while a store uses them."""

    def __init__(self) -> None:
        self._by_path: WeakValueDictionary[bytes, Archive] = WeakValueDictionary()
        self._lock = ForkSafeLock()

    def get(self, path: bytes, url: str) -> Archive:
        """Return the archive of `path`, in which links are resolved."""
        with self._lock:
            archive = self._by_path.get(path)
            if archive is None:
                archive = self._by_path[path] = Archive(path, url)
            return archive


open_archives = _OpenArchives()
