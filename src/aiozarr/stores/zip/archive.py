"""A local archive that all stores of this process share; a change replaces the file whole.

Changes go into a temporary file beside the archive, which replaces the archive when a store is closed. A killed process
leaves the archive unchanged, and the temporary file, which `LocalStore.sweep` removes.
"""

from __future__ import annotations

import errno
import os
import secrets
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet, WeakValueDictionary

from aiozarr.errors import AiozarrError, ForkedProcessError, PreconditionFailedError, StoreError
from aiozarr.fork_safe_lock import ForkSafeLock
from aiozarr.stores.local.atomic_write import flush_directory, make_directories, open_temporary
from aiozarr.stores.zip.contents import PIECE_BYTES, ArchiveFile, Contents, load, token_of
from aiozarr.stores.zip.format import DEFLATED, STORED, Member, new_member, render_directory, render_header

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

    def begin(self, *, empty: bool = False, exclusive: bool = False) -> None:
        """Start to write: an empty archive, or a copy of the present one.

        Raises:
            PreconditionFailedError: `exclusive`, and the archive exists.
            OSError: the archive cannot be written there.
        """
        with self.lock:
            if exclusive and (self._writer is not None or os.path.lexists(self.path)):
                raise PreconditionFailedError("the archive exists already", store=self.url)
            if os.path.isdir(self.path):  # fail now rather than when all is written
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if self._writer is not None:
                self._discard()
            self._open_writer(Contents({}) if empty else self.contents(), exclusive, anew=empty and not exclusive)

    def put(
        self, key: str, data: memoryview, method: int, holds: Callable[[Contents, Member | None], bool] | None = None
    ) -> tuple[Contents, Member] | None:
        """Write a value under `key`. Returns: None if `holds` is false for the present one; nothing was written."""
        packed: bytes | memoryview = data
        if method == DEFLATED:
            compressor = zlib.compressobj(wbits=-15)
            packed = compressor.compress(data) + compressor.flush()
            if len(packed) >= len(data):
                packed, method = data, STORED
        checksum = zlib.crc32(data)
        with self.lock:
            if holds is not None:
                contents = self.contents()
                if not holds(contents, contents.members.get(key)):
                    return None
            writer = self._to_write()
            return writer.contents, writer.put(key, packed, method, checksum, len(data))

    def drop(self, keys: list[str], holds: Callable[[Contents, Member | None], bool] | None = None) -> bool:
        """Remove the values of `keys`; missing ones are skipped.

        Returns: False if `holds` is false for the present value of one; nothing was removed.
        """
        with self.lock:
            if holds is not None:
                contents = self.contents()
                if not all(holds(contents, contents.members.get(key)) for key in keys):
                    return False
            present = [key for key in dict.fromkeys(keys) if key in self.contents().members]
            if present:
                self._to_write().drop(present)
        return True

    def commit(self, *, durable: bool = False) -> None:
        """Replace the archive by the changed one, whole or not at all. After an error this can be called again."""
        with self.lock:
            writer = self._writer
            if writer is None and self._lost is not None:
                raise self._lost
            if writer is None or writer.process != os.getpid():
                return
            writer.commit(durable=durable)
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
            self._open_writer(self.contents(), exclusive=False)
        writer = self._writer
        assert writer is not None
        if writer.process != os.getpid():
            raise ForkedProcessError(
                "the parent process is writing this archive; close it there before the fork", store=self.url
            )
        return writer

    def _open_writer(self, contents: Contents, exclusive: bool, *, anew: bool = False) -> None:
        self._writer = writer = _Writer(self.path, self.url, contents, exclusive, None if anew else contents.token)
        self._finalizer = weakref.finalize(self, _commit_at_exit, writer)
        self._lost = None

    def _discard(self) -> None:
        writer = self._writer
        self._release()
        if writer is not None and writer.process == os.getpid():
            with suppress(OSError):
                os.unlink(writer.temporary)

    def _release(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self._writer = self._finalizer = None


def discard_unfinished() -> None:
    """Remove the temporary files of archives that could not be closed: the process ends without its exit hooks."""
    for writer in list(_writers):
        if writer.process == os.getpid():
            with suppress(OSError):
                os.unlink(writer.temporary)


def _commit_at_exit(writer: _Writer) -> None:
    """Commit for stores that were not closed, when they are collected or the interpreter exits."""
    if writer.process != os.getpid():
        return
    outcome = ""
    try:
        writer.commit(durable=False)
    except (OSError, AiozarrError) as error:
        outcome = f"; its changes are lost: {error}"
        with suppress(OSError):
            os.unlink(writer.temporary)
    message = f"the archive {writer.url} was not closed{outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=1)


_writers: WeakSet[_Writer] = WeakSet()


class _Writer:
    """A temporary file that becomes the archive."""

    def __init__(self, path: bytes, url: str, contents: Contents, exclusive: bool, base: str | None) -> None:
        directory = os.path.dirname(path)
        self._created: list[bytes] = []
        make_directories(directory, self._created)
        self.path = path
        self.url = url
        self.process = os.getpid()
        self.exclusive = exclusive
        self._base = base
        self._has_unused_bytes = contents.repeated is not None
        self.temporary, file = self._create()
        _writers.add(self)
        with _removed_on_failure(self.temporary):
            self._end = _copy(contents.file, 0, contents.directory, file, 0)
        token = secrets.token_hex(8)
        self.contents = Contents(dict(contents.members), dict(contents.starts), file=file, token=token)

    def _create(self) -> tuple[bytes, ArchiveFile]:
        name, descriptor = open_temporary(os.path.dirname(self.path))
        return name, ArchiveFile(descriptor, self.url)

    @property
    def _file(self) -> ArchiveFile:
        assert self.contents.file is not None
        return self.contents.file

    def put(self, key: str, packed: bytes | memoryview, method: int, checksum: int, size: int) -> Member:
        member = new_member(key, self._end, method, checksum, len(packed), size)
        header = render_header(member)
        _write(self._file, header, self._end)
        _write(self._file, packed, self._end + len(header))
        # Only after the writes: if the disk is full, nothing has changed.
        self._end = member.end
        self._has_unused_bytes |= key in self.contents.members
        self.contents.members[key] = member
        self.contents.keys_changed()
        return member

    def drop(self, keys: list[str]) -> None:
        self._has_unused_bytes = True
        for key in keys:
            del self.contents.members[key]
            self.contents.keys_changed()

    def commit(self, *, durable: bool) -> None:
        """Write the directory, then replace the archive.

        Raises:
            PreconditionFailedError: a new archive was to be created and one exists; or another process has replaced the
                archive since it was read.
            OSError: the archive could not be written; it is unchanged, and this can be called again.
        """
        if self._has_unused_bytes:
            self._compact()
        at = self._end
        for record in render_directory(list(self.contents.members.values()), self._end):
            at = _write(self._file, record, at)
        descriptor = self._file.descriptor
        os.ftruncate(descriptor, at)
        if durable:
            os.fsync(descriptor)
        if self.exclusive:
            try:
                os.link(self.temporary, self.path)
            except FileExistsError:
                raise PreconditionFailedError("the archive exists already", store=self.url) from None
            os.unlink(self.temporary)
        else:
            present = None
            with suppress(FileNotFoundError):
                present = os.stat(self.path)
                os.fchmod(descriptor, present.st_mode & 0o777)
            if self._base is not None and self._base != (token_of(present) if present is not None else ""):
                raise PreconditionFailedError(
                    "the archive was changed by another process since it was read", store=self.url
                )
            os.replace(self.temporary, self.path)
        if durable:
            for directory in (os.path.dirname(self.path), *self._created):
                flush_directory(directory)
        self.contents.directory = self._end
        self.contents.token = token_of(os.fstat(descriptor))

    def _compact(self) -> None:
        """Remove replaced and erased members: some readers find members without the directory."""
        temporary, file = self._create()
        end = 0
        moved: dict[str, Member] = {}
        with _removed_on_failure(temporary):
            for key, member in sorted(self.contents.members.items(), key=lambda item: item[1].offset):
                stop = _copy(self._file, member.offset, member.end, file, end)
                moved[key] = member.at(end)
                end = stop
            os.unlink(self.temporary)
        self.temporary, self._end, self._has_unused_bytes = temporary, end, False
        # A member may now have the offset of another one: with a new token no earlier version matches.
        self.contents = Contents(moved, file=file, token=secrets.token_hex(8))


@contextmanager
def _removed_on_failure(path: bytes) -> Iterator[None]:
    """Remove the temporary file if the block fails, for example because the disk is full."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def _copy(source: ArchiveFile | None, start: int, stop: int, target: ArchiveFile, to: int) -> int:
    while source is not None and start < stop:
        data = source.read(start, min(PIECE_BYTES, stop - start))
        to = _write(target, data, to)
        start += len(data)
    return to


def _write(file: ArchiveFile, data: bytes | memoryview, at: int) -> int:
    view = memoryview(data)
    while view:
        count = os.pwrite(file.descriptor, view, at)
        view, at = view[count:], at + count
    return at


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
