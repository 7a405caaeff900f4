"""Replaces a file, whole or not at all, and serialises the writers of one host.

A value is written to a temporary file in the directory of its key, which is then renamed. The precondition is checked,
and the file renamed, under an exclusive `flock` of that directory, like every other change of a name in it. So
compare-and-swap holds against all writers of the host, and no lock file remains. A directory with a temporary file
cannot be pruned. Its writer holds a lock of the temporary file, so that a file without one is known to be a killed
writer's. Only the files of a batch have no lock: a sweep may remove them after a second, and the batch is then written
file by file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, groupby

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import UnsafeWriteWarning
from aiozarr.model import IfAbsent, Precondition, Version
from aiozarr.stores.local.open_directory import DIRECTORY, OpenDirectory

if sys.platform != "win32":  # LocalStore refuses Windows
    import fcntl

# Names with this prefix are temporary files: not listed, not read, refused as keys, removed by `sweep`.
TEMPORARY = b".aiozarr-write~"

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_NO_FLOCK = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EBADF})
_NO_RESERVATION = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.ENODEV})
_MAX_CREATE_ATTEMPTS = 100
_NEW_MODE = 0o666  # without the bits of the umask
_OWN_FOLDER = b"/.aiozarr-"  # begins the names of folders that aiozarr makes for itself, with the mode that users want
# Random bytes for each file would be one more system call.
_PROCESS_NAME = os.urandom(8).hex().encode()
_file_numbers = count()
_process_locks = [ForkSafeLock() for _ in range(64)]


class UnmetPreconditionError(Exception):
    """The precondition does not hold; nothing was changed."""


def version_of(status: os.stat_result) -> Version:
    """Return the version of a file: its time of change, size and inode."""
    return Version(f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}")


def replace_file(path: bytes, data: memoryview, precondition: Precondition | None, fsync: bool) -> Version:
    """Make `data` the content of the file `path`, creating the directories above it.

    Raises:
        UnmetPreconditionError: `precondition` does not hold.
        OSError: the file could not be replaced; it is unchanged, and no temporary file remains.
    """
    file = NewFile(path, fsync)
    try:
        file.write(0, data)
        return file.commit(precondition)
    except BaseException:
        file.abort()
        raise


def replace_files(contents: Iterable[tuple[bytes, memoryview]], fsync: bool) -> None:
    """Do what `replace_file` does for each (path, content). A directory is locked once for files in succession.

    Raises:
        FileNotFoundError: a sweep has removed a temporary file. These have no lock, so that few are open at once.
        OSError: a file could not be replaced. Those before it may have been; no temporary file remains.
    """
    for _, group in groupby(contents, lambda content: os.path.dirname(content[0])):
        files: list[NewFile] = []
        try:
            for path, data in group:
                files.append(NewFile(path, fsync, is_locked=False))
                files[-1].write(0, data)
                files[-1].seal()
            _rename(files, None)
        except BaseException:
            for file in files:
                file.abort()
            raise


class NewFile:
    """The future content of a file, in a temporary file beside it. Threads may write different parts of it.

    Args:
        path: the file, which `commit` creates or replaces.
        fsync: flush it before that.
        size: reserve this many bytes at once, so that a full disk is detected before they are fetched.
        is_locked: hold the lock of the temporary file. Without it, a sweep may remove the file after a second.

    Attributes:
        directory: the directory of `path`.
        descriptor: of the temporary file; -1 once it is closed.
        created: directories that got a new entry because `directory` did not exist.

    Raises:
        OSError: it could not be created.
    """

    def __init__(self, path: bytes, fsync: bool, size: int = 0, *, is_locked: bool = True) -> None:
        self._path = path
        self._is_locked = is_locked
        self.fsync = fsync
        self.directory = os.path.dirname(path)
        # A journal, which names the objects of a store, is nobody else's while it is written.
        self._is_own = _OWN_FOLDER in path
        mode = _mode_of_replaced(path, 0o600 if self._is_own else _NEW_MODE)
        self._temporary, self.descriptor, self.created = _create_temporary(self.directory, mode, is_locked=is_locked)
        if size and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self.descriptor, 0, size)
            except OSError as error:
                if error.errno not in _NO_RESERVATION:
                    self.abort()
                    raise

    def write(self, start: int, data: memoryview) -> None:
        """Write `data`, flat bytes, at `start`."""
        while len(data):
            count = os.pwrite(self.descriptor, data, start)
            start += count
            data = data[count:]

    def commit(self, precondition: Precondition | None = None) -> Version:
        """Give the file its name.

        Raises:
            UnmetPreconditionError: `precondition` does not hold. `abort` must follow, as after an `OSError`.
        """
        self.seal()
        _rename([self], precondition)
        version = version_of(os.fstat(self.descriptor))
        self._close()
        return version

    def seal(self) -> None:
        """Set the time that is part of the version, and flush. Nothing more may be written.

        Raises:
            OSError: the content was not stored. `abort` must follow.
        """
        # The kernel's own times have ticks of milliseconds, and inode numbers are reused at once. A time in
        # nanoseconds, taken now, gives two states of a file different versions.
        now = time.time_ns()
        os.utime(self.descriptor, ns=(now, now))
        if self.fsync:
            _flush(self.descriptor)
        # A network file system may report only here that it did not store the content. The duplicate holds the lock,
        # which shows until the rename that the temporary file has a writer.
        written, self.descriptor = self.descriptor, os.dup(self.descriptor) if self._is_locked else -1
        os.close(written)

    def rename(self, precondition: Precondition | None) -> None:
        """Give the sealed file its name, and the mode of the file that it replaces, under the lock of its directory."""
        replaced = _check(self._path, precondition)
        if replaced is not None:
            _take_mode(self._temporary, replaced)
        elif self._is_own:
            os.chmod(self._temporary, stat.S_IMODE(os.stat(self.directory).st_mode) & _NEW_MODE)
        os.replace(self._temporary, self._path)

    def abort(self) -> None:
        """Remove the temporary file; unless it was renamed, the file `path` is unchanged."""
        with suppress(OSError):
            os.unlink(self._temporary)
        self._close()

    def _close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _rename(files: Sequence[NewFile], precondition: Precondition | None) -> None:
    """Give sealed files of one directory their names."""
    with _locked(files[0].directory) as locked:
        for file in files:
            file.rename(precondition)
        if files[0].fsync:
            os.fsync(locked.descriptor)
    for file in files:
        if file.fsync:
            for parent in file.created:
                flush_directory(parent)


def remove_file(path: bytes, fsync: bool, version: Version | None = None) -> None:
    """Remove the file or link `path`, if it exists and is not (a link to) a directory.

    Raises:
        UnmetPreconditionError: `version` is given, and the file has another one or does not exist.
        OSError: it could not be removed.
    """
    above, name = os.path.split(path)
    with suppress(FileNotFoundError, NotADirectoryError), _locked(above) as directory:
        status = status_behind_link(directory, name)
        if version is not None and (status is None or version_of(status) != version):
            raise UnmetPreconditionError
        if status is None or not stat.S_ISDIR(status.st_mode):
            directory.unlink(name)
            if fsync:
                os.fsync(directory.descriptor)
        return
    if version is not None:
        raise UnmetPreconditionError


def status_behind_link(directory: OpenDirectory, name: bytes) -> os.stat_result | None:
    """Return the status of what an entry is, or leads to; None if that does not exist."""
    try:
        return directory.status(name, follows_link=True)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
    return None


def remove_files(directory: OpenDirectory, names: list[bytes], fsync: bool) -> None:
    """Remove the files and links `names` of `directory`; missing ones are skipped."""
    with _exclusive(directory.descriptor, directory.path):
        for name in names:
            directory.unlink(name)
        if fsync:
            os.fsync(directory.descriptor)


def prune(path: bytes, root: bytes) -> None:
    """Remove the directory `path` and its parents below `root` while they are empty. No link is followed."""
    while len(path) > len(root):
        path, name = os.path.split(path)
        try:
            with OpenDirectory.below(root, path) as directory:
                directory.rmdir(name)
        except OSError:  # not empty, removed, a link, or without permission: its parents cannot be removed either
            return


# --- temporary files ---------------------------------------------------------------------------------------------


def _mode_of_replaced(path: bytes, new: int) -> int:
    """Return the mode with which the future content of the file `path` is written, or `new` if it does not exist.

    Nobody else may read the content meanwhile.

    A new file has the group of this process, if its directory has no other rule.
    """
    try:
        status = os.stat(path)
    except OSError:
        return new
    mode = stat.S_IMODE(status.st_mode) & _NEW_MODE
    return mode if status.st_gid == os.getegid() else mode & ~stat.S_IRWXG


def _take_mode(temporary: bytes, replaced: os.stat_result) -> None:
    """Give a file the mode and the group of the one that it replaces, or no rights for a group that it cannot have."""
    status, mode = os.stat(temporary), stat.S_IMODE(replaced.st_mode)
    if status.st_gid != replaced.st_gid:
        try:
            os.chown(temporary, -1, replaced.st_gid)
        except OSError:
            mode &= ~stat.S_IRWXG
    if stat.S_IMODE(status.st_mode) != mode:
        os.chmod(temporary, mode)


def open_temporary(directory: bytes, mode: int = _NEW_MODE, *, is_locked: bool = True) -> tuple[bytes, int]:
    """Return path and descriptor of a new temporary file in `directory`. Its lock is held while it is open."""
    temporary = b"%s/%s%s-%x-%x" % (directory, TEMPORARY, _PROCESS_NAME, os.getpid(), next(_file_numbers))
    descriptor = os.open(temporary, _CREATE, mode)
    if is_locked:
        with suppress(OSError):  # without locks, only its age shows that a file has no writer
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return temporary, descriptor


def _create_temporary(directory: bytes, mode: int, *, is_locked: bool) -> tuple[bytes, int, list[bytes]]:
    """Return (path, descriptor, directories that got a new entry) of a new temporary file in `directory`."""
    created: list[bytes] = []
    for _ in range(_MAX_CREATE_ATTEMPTS):
        try:
            return *open_temporary(directory, mode, is_locked=is_locked), created
        except FileExistsError:
            continue
        except FileNotFoundError:
            # Missing, or pruned by an eraser between our mkdir and our open.
            make_directories(directory, created)
    # An eraser that prunes directories loses such a race soon. File systems such as /proc report a directory that they
    # do not create as missing, so a repetition would fail in the same way.
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)


def has_writer(directory: OpenDirectory, name: bytes) -> bool:
    """Return whether a temporary file may have a writer: whether its lock is held, or cannot be checked."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = directory.open(name, flags)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def make_directories(directory: bytes, created: list[bytes]) -> None:
    """Create `directory` and those above it, and add the directories that got a new entry to `created`."""
    try:
        os.mkdir(directory)
    except FileExistsError:
        _require_directory(directory)
        return
    except FileNotFoundError:
        parent = os.path.dirname(directory)
        if parent == directory:
            raise
        make_directories(parent, created)
        with suppress(FileExistsError, FileNotFoundError):  # the caller retries
            os.mkdir(directory)
            created.append(parent)
        return
    created.append(os.path.dirname(directory))


def _require_directory(path: bytes) -> None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if not os.path.islink(path):
            return  # pruned since, so the caller retries
    else:
        if stat.S_ISDIR(status.st_mode):
            return
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def _flush(descriptor: int) -> None:
    if sys.platform == "darwin":  # fsync does not flush the drive's cache on macOS
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def flush_directory(directory: bytes) -> None:
    """Flush the names in `directory` to the device."""
    descriptor = os.open(directory, DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- locks -------------------------------------------------------------------------------------------------------


@contextmanager
def _locked(path: bytes) -> Iterator[OpenDirectory]:
    """Open the directory `path`, hold its lock, and yield it."""
    while True:
        with OpenDirectory(path) as directory, _exclusive(directory.descriptor, path):
            # The directory may have been pruned and created again meanwhile, with another inode and lock.
            if os.path.samestat(os.fstat(directory.descriptor), os.stat(path)):
                yield directory
                return


@contextmanager
def _exclusive(descriptor: int, directory: bytes) -> Iterator[None]:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        warnings.warn(
            "this file system has no locks: conditional writes hold within this process only",
            UnsafeWriteWarning,
            stacklevel=2,
        )
        with _process_locks[hash(directory) % len(_process_locks)]:
            yield
    else:
        try:
            yield
        finally:
            # Closing is not enough, because a process that was forked meanwhile has the same open file.
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _check(path: bytes, precondition: Precondition | None) -> os.stat_result | None:
    """Check, under the lock, that `path` may be replaced, and return the status of the file that would be."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link to itself has no value, and may be replaced
            raise
        status = None
    if status is not None and stat.S_ISDIR(status.st_mode):
        # Replacing a link to a directory would hide the keys below it.
        if os.path.islink(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        _remove_empty(path)
        status = None
    if isinstance(precondition, IfAbsent):
        if status is not None:
            raise UnmetPreconditionError
    elif precondition is not None and (status is None or version_of(status) != precondition.version):
        raise UnmetPreconditionError
    return status


def _remove_empty(path: bytes) -> None:
    try:
        os.rmdir(path)
    except OSError as error:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from error
