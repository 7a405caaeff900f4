"""A zip archive on the local disk, which is read in place and replaced whole when it is closed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from typing_extensions import Buffer

from aiozarr.errors import ChangedError, PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, IfMatch, Precondition, Supports, Value, Version, check_key, is_met, resolve_range
from aiozarr.stores.blocking import BlockingStore, in_thread, in_thread_uncancelled
from aiozarr.stores.contract import Store, byte_view, check_max_bytes
from aiozarr.stores.local.stored_file import absolute_path, store_error
from aiozarr.stores.zip.archive import open_archives
from aiozarr.stores.zip.contents import Contents
from aiozarr.stores.zip.format import Member
from aiozarr.stores.zip.zip_store import ZipMode, ZipStore


@dataclass
class _Use:
    """The shared use of an archive by a store and the stores above and below it."""

    wrote: bool
    is_closed: bool = False


class LocalZipStore(BlockingStore, ZipStore, in_store=False):
    """An archive on the local disk; `ZipStore(path)` returns this class."""

    def _locate(self, path_or_store: str | os.PathLike[str] | Store, mode: ZipMode, key: str | None) -> str:
        if os.name != "posix":
            raise UnsupportedOperationError("archives on disk need a POSIX file system")
        if mode not in ("r", "w", "a", "x"):
            raise ValueError(f"mode is 'r', 'w', 'a' or 'x', not {mode!r}")
        if key is not None:
            raise TypeError("key= is for an archive in a store; a path names the archive itself")
        if self._compression not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("compression is zipfile.ZIP_STORED or zipfile.ZIP_DEFLATED")
        assert not isinstance(path_or_store, Store)
        self._path = absolute_path(path_or_store)
        self._mode = mode
        return "file://" + quote(self._path)

    def _begin(self, mode: ZipMode) -> None:
        self._archive = open_archives.get(os.path.realpath(self._path), self._url)
        self.supports = Supports(
            writable=mode != "r",
            listable=True,
            conditional_reads=True,
            conditional_writes=mode != "r",
            conditional_erases=mode != "r",
            bounded_reads=True,
        )
        self._use = _Use(wrote=mode in ("w", "x"))
        if self._use.wrote:
            with self._translated("creating", None):
                self._archive.begin(exclusive=mode == "x")

    @property
    def path(self) -> str:
        """The absolute path of the archive."""
        return os.fsdecode(self._path)

    @property
    def prefix(self) -> str:
        """The store's root in the archive: `""`, or ending with `/`."""
        return self._prefix

    @property
    def identity(self) -> Hashable:
        return (LocalZipStore, self._archive.path, self._prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._archive.has_changes:
            raise UnsupportedOperationError(
                "close the archive before it is pickled: other processes cannot see its changes yet"
            )
        return self._copied(self.path, "r" if self._mode == "r" else "a")

    def __repr__(self) -> str:
        return f"ZipStore({self.path!r}, {self._mode!r}{f', prefix={self._prefix!r}' if self._prefix else ''})"

    # --- blocking ------------------------------------------------------------------------------------------------

    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        check_key(key, store=self._url)
        with self._translated("reading", key, range):
            contents = self._archive.contents().check(self._duplicates, self._url)
            member = contents.members.get(self._prefix + key)
            if member is None:
                return None
            version = self._version(contents, member)
            if if_match is not None and version != if_match:
                raise ChangedError("the value was replaced", store=self._url, key=key, range=range)
            start, stop = resolve_range(member.size, range)
            check_max_bytes(stop - start, max_bytes, store=self._url, key=key, range=range)
            return Value(contents.read(member, start, stop, self._limit, self._url), version, member.size)

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        check_key(key, store=self._url)
        self._require_writable("write")
        data = byte_view(value)
        check_key(self._prefix + key, store=self._url)
        with self._translated("writing", key):
            self._use.wrote = True
            holds = None if precondition is None else lambda *found: self._is_met(precondition, *found)
            self._archive.contents().check(self._duplicates, self._url)
            written = self._archive.put(self._prefix + key, data, self._compression, holds)
        if written is None:
            raise PreconditionFailedError(f"{precondition} does not hold", store=self._url, key=key)
        return self._version(*written)

    def _is_met(self, precondition: Precondition, contents: Contents, member: Member | None) -> bool:
        return is_met(precondition, None if member is None else self._version(contents, member))

    def erase_now(self, key: str) -> None:
        self._erase([check_key(key, store=self._url)])

    def erase_if_match_now(self, key: str, version: Version) -> None:
        met = partial(self._is_met, IfMatch(version))
        if not self._erase([check_key(key, store=self._url)], met):
            raise PreconditionFailedError("the value was replaced", store=self._url, key=key)

    def _erase(self, keys: list[str], holds: Callable[[Contents, Member | None], bool] | None = None) -> bool:
        self._require_writable("erase")
        with self._translated("erasing", None):
            self._archive.contents().check(self._duplicates, self._url)
            self._use.wrote = True
            return self._archive.drop([self._prefix + key for key in keys], holds)

    def _require_writable(self, doing: str) -> None:
        if not self.supports.writable:
            raise self._unsupported(f"{doing} in mode 'r'")
        if self._use.is_closed:
            # Changes would become part of the archive only at the end of the process.
            raise UnsupportedOperationError(f"the archive was closed: open it again to {doing}", store=self._url)

    def _commit(self) -> None:
        with self._translated("closing", None):
            if self._use.wrote:
                self._archive.commit(fsync=self._fsync)
                self._use.wrote = False
            else:
                self._archive.release()
            self._use.is_closed = True

    def _version(self, contents: Contents, member: Member) -> Version:
        return Version(generation=f"{contents.token}-{member.offset:x}")

    # --- coroutines ----------------------------------------------------------------------------------------------

    async def erase_values(self, keys: Iterable[str]) -> None:
        wanted = [check_key(key, store=self._url) for key in keys]
        await in_thread_uncancelled(partial(self._erase, wanted))

    async def aclose(self) -> None:
        """Commit all changes to the archive. It can still be read; to write more, open it again."""
        await in_thread_uncancelled(self._commit)

    async def give_up(self, error: Exception) -> None:
        """Drop the changes to the archive, which `aclose` could not commit because of `error`."""
        await in_thread_uncancelled(partial(self._archive.give_up, error))

    async def _index(self) -> Contents:
        def look() -> Contents:
            with self._translated("listing", None):
                return self._archive.contents().check(self._duplicates, self._url)

        return await in_thread(look)

    @contextmanager
    def _translated(self, doing: str, key: str | None, range: ByteRange | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise store_error(error, doing, store=self._url, key=key, range=range) from error
