"""Lists and removes the keys below a local root in batches, without a whole tree in memory.

A key is a regular file, or a link to one, whose path is valid UTF-8. Temporary files, directories, devices and other
names are not keys. Listings follow links to directories, except for links back to a directory on the way to them. Links
that cannot be followed, and names that are not UTF-8, are entries with a fault: copies must not take them for missing.
An entry counts the segments of its key behind a link, so that erasing listed keys leaves these alone. Erasing a prefix
removes a link and not its target.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby

from aiozarr.model import Entry
from aiozarr.stores.local.atomic_write import (
    TEMPORARY,
    has_writer,
    prune,
    remove_files,
    status_behind_link,
    version_of,
)
from aiozarr.stores.local.open_directory import OpenDirectory
from aiozarr.stores.local.stored_file import MISSING

BATCH_ENTRIES = 512
MIN_ABANDONED_SECONDS = 1.0
"""Age of a temporary file without a writer. Its writer creates it, and locks it some microseconds later."""

# A directory to walk: its path, the real paths of the directories with the links on the way to it, and the number of
# segments of the keys in it that lie behind the first of these links.
_Pending = tuple[bytes, tuple[bytes, ...], int]


def walk(base: bytes, start: bytes, batch_entries: int = BATCH_ENTRIES) -> Iterator[list[Entry]]:
    """Iterate over the keys below `start`, in batches; files that are removed meanwhile are skipped.

    `base` is the path of the root with a slash at its end, which is cut off each path.

    Raises:
        OSError: a directory could not be read, or `start` is a link that cannot be followed.
    """
    batch: list[Entry] = []
    pending: list[_Pending] = [(start, (), segments_behind_link(base, start))]
    while pending:
        directory, trail, behind = pending.pop()
        for found in _scandir(directory):
            if found.name.startswith(TEMPORARY):
                continue
            if _name(found) is not None and _is_directory(found):
                below = _follow(found, directory, trail, behind)
                if below is not None:
                    pending.append(below)
                    continue
            entry = _entry(base, found, behind)
            if entry is None:
                fault = _fault_of(found)
                if not fault:
                    continue
                key = found.path[len(base) :].decode(errors="backslashreplace")
                entry = Entry(key, None, None, behind, fault)
            batch.append(entry)
            if len(batch) == batch_entries:
                yield batch
                batch = []
    if batch:
        yield batch


def segments_behind_link(base: bytes, directory: bytes) -> int:
    """Return how many segments of the keys in `directory` lie behind the first link on the way to it; 0: no link."""
    names = directory[len(base) :].split(b"/") if len(directory) > len(base) else []
    path = base.rstrip(b"/")
    for position, name in enumerate(names):
        path = b"%s/%s" % (path, name)
        if os.path.islink(path):
            return len(names) - position
    return 0


def list_one(directory: bytes) -> tuple[list[str], list[str]]:
    """Return the names of the keys, and those of the directories, directly in `directory`, sorted.

    A link that cannot be followed counts as a directory: looking into it shows the error.
    """
    keys: list[str] = []
    directories: list[str] = []
    for found in _scandir(directory):
        name = _name(found)
        if name is None:
            continue
        if _is_file(found):
            keys.append(name)
        elif _is_directory(found) or _fault_of(found):
            directories.append(name)
    return sorted(keys), sorted(directories)


def remove_tree(root: bytes, start: bytes, fsync: bool) -> Iterator[int]:
    """Remove the keys below `start`, then directories that are empty; yields the number of files of each step.

    Temporary files that a killed writer has left are removed, too. `fsync`: each directory is flushed after its files
    were removed. An empty directory may be there again after a power failure.

    Raises:
        OSError: a directory could not be read, or a file could not be removed.
    """
    above, name = (root, None) if start == root else os.path.split(start)
    try:
        with OpenDirectory.below(root, above) as directory:
            yield from _remove_contents(directory, fsync, name)
    except OSError as error:
        if error.errno not in MISSING:
            raise
    if name is not None:
        prune(above, root)


def _remove_contents(directory: OpenDirectory, fsync: bool, only: bytes | None = None) -> Iterator[int]:
    """Remove the contents of a directory, or only those of one directory in it, with this directory."""
    files: list[bytes] = []
    directories: list[bytes] = [] if only is None else [only]
    for name, found in directory.entries() if only is None else ():
        if _is_abandoned(directory, name) if name.startswith(TEMPORARY) else _is_key(name):
            if found.is_dir(follow_symlinks=False):
                directories.append(name)
            elif found.is_file(follow_symlinks=False) or found.is_symlink():
                files.append(name)
    for first in range(0, len(files), BATCH_ENTRIES):
        remove_files(directory, files[first : first + BATCH_ENTRIES], fsync)
        yield len(files[first : first + BATCH_ENTRIES])
    for name in directories:
        try:
            inner = OpenDirectory(name, directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                remove_files(directory, [name], fsync)
            elif error.errno not in MISSING:
                raise
            continue
        with inner:
            yield from _remove_contents(inner, fsync)
        with suppress(OSError):  # it contains something that is not a key
            directory.rmdir(name)


def remove_keys(root: bytes, paths: Iterable[bytes], fsync: bool) -> Iterator[int]:
    """Remove files and links at `paths`; yields the number of each step. Directories and links to them stay.

    Raises:
        OSError: a file could not be removed, which `filename` has; `ELOOP` if it lies behind a link to a directory.
    """
    for above, group in groupby(sorted(paths, key=os.path.dirname), os.path.dirname):
        names = [os.path.basename(path) for path in group]
        try:
            with OpenDirectory.below(root, above) as directory:
                status = {name: status_behind_link(directory, name) for name in names}
                files = [name for name, each in status.items() if each is None or not stat.S_ISDIR(each.st_mode)]
                remove_files(directory, files, fsync)
        except OSError as error:
            if error.errno in MISSING:
                continue
            error.filename = b"%s/%s" % (above, names[0])
            raise
        prune(above, root)
        yield len(names)


def sweep(root: bytes, older_than: float | None) -> Iterator[int]:
    """Remove temporary files below `root` that were last written `older_than` seconds ago or earlier.

    None: files without a writer, whatever their age.
    """
    latest = None if older_than is None else time.time() - older_than
    for directory, files in _temporary_files(root):
        if latest is None:
            old = [name for name, _ in files if _is_abandoned(directory, name)]
        else:
            old = [name for name, status in files if status.st_mtime < latest]
        if old:
            remove_files(directory, old, fsync=False)
            prune(directory.path, root)
        yield len(old)


def abandoned_files(root: bytes, older_than: float, *, is_deep: bool) -> Iterator[tuple[bytes, int, float]]:
    """Iterate over temporary files without a writer that were last written `older_than` seconds ago or earlier.

    Yields path, size in bytes, and age in seconds. Links to directories are not followed; `is_deep`: directories are.
    """
    now = time.time()
    for directory, files in _temporary_files(root, is_deep=is_deep):
        for name, status in files:
            if now - status.st_mtime >= older_than and _is_abandoned(directory, name):
                yield b"%s/%s" % (directory.path.rstrip(b"/"), name), status.st_size, now - status.st_mtime


def _temporary_files(
    root: bytes, *, is_deep: bool = True
) -> Iterator[tuple[OpenDirectory, list[tuple[bytes, os.stat_result]]]]:
    """Iterate over the directories from `root` on, and names and status of their temporary files. Links are skipped."""
    pending = [root]
    while pending:
        path = pending.pop()
        files: list[tuple[bytes, os.stat_result]] = []
        try:
            with OpenDirectory.below(root, path) as directory:
                for name, found in directory.entries():
                    if found.is_dir(follow_symlinks=False):
                        pending += [b"%s/%s" % (path.rstrip(b"/"), name)] if is_deep else []
                    elif name.startswith(TEMPORARY):
                        with suppress(FileNotFoundError):
                            files.append((name, directory.status(name)))
                yield directory, files
        except OSError as error:
            if error.errno not in MISSING and error.errno != errno.ELOOP:
                raise


def _scandir(directory: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError as error:
        if error.errno not in MISSING or (error.errno == errno.ENOENT and os.path.islink(directory)):
            raise


def _name(found: os.DirEntry[bytes]) -> str | None:
    """Return the name as a segment of a key, or None if it cannot be one."""
    return found.name.decode() if _is_key(found.name) else None


def _is_key(name: bytes) -> bool:
    try:
        return not name.startswith(TEMPORARY) and name.decode() is not None
    except UnicodeDecodeError:
        return False


def _is_abandoned(directory: OpenDirectory, name: bytes) -> bool:
    """Return whether a temporary file has no writer. A new one may not have its lock yet."""
    try:
        status = directory.status(name)
    except FileNotFoundError:
        return False
    is_new = status.st_mtime > time.time() - MIN_ABANDONED_SECONDS
    return stat.S_ISREG(status.st_mode) and not is_new and not has_writer(directory, name)


def _is_directory(found: os.DirEntry[bytes]) -> bool:
    try:
        return found.is_dir()
    except OSError:  # a cycle of links
        return False


def _is_file(found: os.DirEntry[bytes]) -> bool:
    try:
        return found.is_file()
    except OSError:
        return False


def _fault_of(found: os.DirEntry[bytes]) -> str:
    """Return why neither a file nor a directory can be listed; empty for pipes and devices, and if it is gone."""
    if _name(found) is None:
        return "the name is not UTF-8, so it is not a key"
    try:
        os.stat(found.path)
    except OSError as error:
        if not os.path.lexists(found.path):
            return ""
        name = errno.errorcode.get(error.errno or 0, "unknown error")
        return f"the link cannot be followed: {os.strerror(error.errno or 0)} [{name}]"
    return "the link leads back to a directory above it" if _is_directory(found) else ""


def _entry(base: bytes, found: os.DirEntry[bytes], behind: int) -> Entry | None:
    if not _is_file(found):
        return None
    try:
        status = found.stat()
        key = found.path[len(base) :].decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return Entry(key, status.st_size, version_of(status), behind)


def _follow(found: os.DirEntry[bytes], directory: bytes, trail: tuple[bytes, ...], behind: int) -> _Pending | None:
    """Return the directory to walk, or None for a link back to a directory on the way to it."""
    behind = behind and behind + 1
    if not found.is_symlink():
        return found.path, trail, behind
    target = os.path.realpath(found.path)
    trail = (*trail, os.path.realpath(directory))
    if any((passed + b"/").startswith(target.rstrip(b"/") + b"/") for passed in trail):
        return None
    return found.path, trail, behind or 1
