"""A local archive of this process: all its stores share what it holds, and a change replaces the file whole.

Changes go into a temporary file beside the archive, which takes the archive's name when a store is closed. A process
that is killed leaves the archive as it was, and the temporary file, which `LocalStore.sweep` removes.
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
from weakref import WeakValueDictionary

from aiozarr.errors import AiozarrError, ForkedProcessError, PreconditionFailedError, StoreError
from aiozarr.stores.local.write import TEMPORARY
from aiozarr.stores.lock import Lock
from aiozarr.stores.zip.contents import PIECE, Contents, File, load, token_of
from aiozarr.stores.zip.format import DEFLATED, STORED, Member, new_member, render_directory, render_header

# Without O_NONBLOCK, opening a pipe of that name would wait for its writer.
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


class Archive:
    """What the stores of one path share. All methods may be called from any thread."""

    def __init__(self, path: bytes, url: str) -> None:
        self.path = path
        self.url = url
        self.lock = Lock()
        self._read: Contents | None = None
        self._writer: _Writer | None = None
        self._finish: weakref.finalize[[_Writer], Archive] | None = None

    def contents(self) -> Contents:
        """Return what the archive holds now, changes that are not committed yet included.

        Raises:
            StoreError: it is no archive that can be read, or was removed since it was.
            OSError: it cannot be opened.
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
    def changed(self) -> bool:
        """True where something was written that the archive's file does not hold yet."""
        return self._writer is not None

    def begin(self, *, empty: bool = False, exclusive: bool = False) -> None:
        """Start to write: an empty archive, or one with what there is.

        Raises:
            PreconditionFailedError: `exclusive`, and there is an archive.
            OSError: it cannot be written there.
        """
        with self.lock:
            if exclusive and (self._writer is not None or os.path.lexists(self.path)):
                raise PreconditionFailedError("something is there already", store=self.url)
            if os.path.isdir(self.path):  # now, and not only when all is written
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if self._writer is not None:
                self._discard()
            self._open_writer(Contents({}) if empty else self.contents(), exclusive, anew=empty and not exclusive)

    def put(
        self, key: str, data: memoryview, method: int, holds: Callable[[Contents, Member | None], bool] | None = None
    ) -> tuple[Contents, Member] | None:
        """Write a value in place of what is stored under `key`; None where `holds` is not true of that."""
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

    def drop(self, keys: list[str]) -> None:
        """Remove the values of `keys`, those that are there."""
        with self.lock:
            there = [key for key in dict.fromkeys(keys) if key in self.contents().members]
            if there:
                self._to_write().drop(there)

    def commit(self, *, durable: bool = False) -> None:
        """Make the changes the archive, whole or not at all."""
        with self.lock:
            writer = self._writer
            if writer is None or writer.process != os.getpid():
                return
            writer.commit(durable=durable)
            self._release()
            self._read = writer.contents

    def let_go(self) -> None:
        """Close the file that is read; whoever reads again opens it again."""
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
        self._finish = weakref.finalize(self, _finish_late, writer)

    def _discard(self) -> None:
        writer = self._writer
        self._release()
        if writer is not None and writer.process == os.getpid():
            with suppress(OSError):
                os.unlink(writer.temporary)

    def _release(self) -> None:
        if self._finish is not None:
            self._finish.detach()
        self._writer = self._finish = None


def _finish_late(writer: _Writer) -> None:
    """Commit for a store that nobody closed, when it is collected or the interpreter exits."""
    if writer.process != os.getpid():
        return
    outcome = ""
    try:
        writer.commit(durable=False)
    except (OSError, AiozarrError) as error:
        outcome = f", and what was written to it is lost: {error}"
        with suppress(OSError):
            os.unlink(writer.temporary)
    message = f"the archive {writer.url} was not closed before it was let go{outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=1)


class _Writer:
    """A temporary file that becomes the archive."""

    def __init__(self, path: bytes, url: str, contents: Contents, exclusive: bool, base: str | None) -> None:
        directory = os.path.dirname(path)
        os.makedirs(directory, exist_ok=True)
        self.path = path
        self.url = url
        self.process = os.getpid()
        self.exclusive = exclusive
        self._base = base
        self._dead = contents.repeated is not None
        self.temporary, file = self._create()
        with _removed_on_failure(self.temporary):
            self._end = _copy(contents.file, 0, contents.directory, file, 0)
        token = secrets.token_hex(8)
        self.contents = Contents(dict(contents.members), dict(contents.starts), file=file, token=token)

    def _create(self) -> tuple[bytes, File]:
        name = os.path.dirname(self.path) + b"/" + TEMPORARY + secrets.token_hex(8).encode()
        return name, File(os.open(name, _CREATE, 0o666), self.url)

    @property
    def _file(self) -> File:
        assert self.contents.file is not None
        return self.contents.file

    def put(self, key: str, packed: bytes | memoryview, method: int, checksum: int, size: int) -> Member:
        member = new_member(key, self._end, method, checksum, len(packed), size)
        header = render_header(member)
        _write(self._file, header, self._end)
        _write(self._file, packed, self._end + len(header))
        # Only now: where the disk is full, nothing has changed.
        self._end = member.end
        self._dead |= key in self.contents.members
        self.contents.members[key] = member
        self.contents.changed()
        return member

    def drop(self, keys: list[str]) -> None:
        self._dead = True
        for key in keys:
            del self.contents.members[key]
            self.contents.changed()

    def commit(self, *, durable: bool) -> None:
        """Write the directory, and take the archive's name.

        Raises:
            PreconditionFailedError: the archive was to be new, and there is one now; or the changes are to one that
                somebody else has replaced since.
            OSError: it could not be done; the archive is untouched, and this can be called again.
        """
        if self._dead:
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
                raise PreconditionFailedError("something is there already", store=self.url) from None
            os.unlink(self.temporary)
        else:
            present = None
            with suppress(FileNotFoundError):
                present = os.stat(self.path)
                os.fchmod(descriptor, present.st_mode & 0o777)
            if self._base is not None and self._base != (token_of(present) if present is not None else ""):
                raise PreconditionFailedError("somebody else has changed the archive since it was read", store=self.url)
            os.replace(self.temporary, self.path)
        if durable:
            _flush_directory(os.path.dirname(self.path))
        self.contents.directory = self._end
        self.contents.token = token_of(os.fstat(descriptor))

    def _compact(self) -> None:
        """Leave out what was replaced or removed: other readers may look for members without the directory."""
        temporary, file = self._create()
        end = 0
        moved: dict[str, Member] = {}
        with _removed_on_failure(temporary):
            for key, member in sorted(self.contents.members.items(), key=lambda item: item[1].offset):
                stop = _copy(self._file, member.offset, member.end, file, end)
                moved[key] = member.at(end)
                end = stop
            os.unlink(self.temporary)
        self.temporary, self._end, self._dead = temporary, end, False
        # Where another value lay, this one does now: versions that were given out name none of these.
        self.contents = Contents(moved, file=file, token=secrets.token_hex(8))


@contextmanager
def _removed_on_failure(path: bytes) -> Iterator[None]:
    """Leave no file that nobody would find again, as where the disk is full."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def _copy(source: File | None, start: int, stop: int, target: File, to: int) -> int:
    while source is not None and start < stop:
        data = source.read(start, min(PIECE, stop - start))
        to = _write(target, data, to)
        start += len(data)
    return to


def _write(file: File, data: bytes | memoryview, at: int) -> int:
    view = memoryview(data)
    while view:
        count = os.pwrite(file.descriptor, view, at)
        view, at = view[count:], at + count
    return at


def _flush_directory(directory: bytes) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Archives:
    """The archives of this process by their real paths, as long as a store uses them."""

    def __init__(self) -> None:
        self._living: WeakValueDictionary[bytes, Archive] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, path: bytes, url: str) -> Archive:
        """Return the archive of `path`, whose links are resolved."""
        with self._lock:
            archive = self._living.get(path)
            if archive is None:
                archive = self._living[path] = Archive(path, url)
            return archive


archives = _Archives()
