"""A store in a zip archive, one member per key: the common part of archives on disk and in other stores."""

from __future__ import annotations

import os
import zipfile
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from aiozarr.model import ByteRange, Entry, Value, Version, check_key, check_prefix
from aiozarr.settings import GIB
from aiozarr.stores.contract import Store, split_root, with_root
from aiozarr.stores.zip.contents import Duplicates, KeyIndex
from aiozarr.stores.zip.format import Member

_classes: dict[bool, type[ZipStore]] = {}
ZipMode: TypeAlias = Literal["r", "w", "a", "x"]


class ZipStore(Store):
    """The members of a zip archive.

    An archive on the local disk can be read and written. Modes are the same as in `zipfile`: "r" reads, "w" replaces
    any archive by a new one, "x" creates one and fails if it exists, "a" changes or creates one. Changes go into a
    temporary file, which replaces the archive when the store is closed, whole or not at all. Until then only the stores
    of this process see them. Values can be replaced and erased: the directory never has two members of one name, and
    their bytes stay in the file until it is copied. If another process has changed the archive, closing raises
    `PreconditionFailedError`, so no update is lost. The first change to an archive that the standard library's
    `zipfile` cannot append to raises `UnsupportedOperationError`.

    An archive in another store is only read: the directory once, then one range per value. A range of an uncompressed
    value costs the bytes of that range. The first one also costs the member's header if the writer of the archive may
    have put something before the data. If the store has no partial reads, an archive of up to 64 MiB is fetched whole.

    Stored and deflated members can be read; the checksum of whole values is verified. Reading a member with another
    compression method, a link or an encrypted member raises `UnsupportedOperationError`. Names that are not keys are
    left out. An archive with overlapping members is refused.
    """

    _url: str
    _prefix: str
    _limit: int

    def __new__(cls, path_or_store: str | os.PathLike[str] | Store, *arguments: Any, **options: Any) -> Self:
        kind: Any = _classes[isinstance(path_or_store, Store)] if cls is ZipStore else cls
        made: Self = object.__new__(kind)
        return made

    def __init_subclass__(cls, *, in_store: bool, **options: Any) -> None:
        super().__init_subclass__(**options)
        _classes[in_store] = cls

    def __init__(
        self,
        path_or_store: str | os.PathLike[str] | Store,
        mode: ZipMode = "r",
        *,
        key: str | None = None,
        prefix: str = "",
        compression: int = zipfile.ZIP_STORED,
        max_member_bytes: int = GIB,
        fsync: bool = False,
        duplicates: Duplicates = "last",
    ) -> None:
        """Create the store; the first operation opens the archive.

        Args:
            path_or_store: the path of the archive, or the store that contains it.
            mode: "r", "w", "x" or "a"; in another store, "r".
            key: the archive's key in that store.
            prefix: the store's root in the archive: `""`, or ending with `/`.
            compression: of written values, `zipfile.ZIP_STORED` or `zipfile.ZIP_DEFLATED`. Chunks are compressed
                already, and a range of a compressed member costs all bytes before it.
            max_member_bytes: a compressed member that decompresses to more raises `LimitError`.
            fsync: flush the archive to the device before closing returns.
            duplicates: how to treat an archive with two members of one name: take the "last", as zarr-python, whose
                `ZipStore` creates such archives when it replaces a document, or "refuse" it.

        Raises:
            ValueError, TypeError: an argument is invalid.
            PreconditionFailedError: the mode is "x", and the archive exists.
        """
        if duplicates not in ("refuse", "last"):
            raise ValueError(f"duplicates must be 'refuse' or 'last', not {duplicates!r}")
        self._limit = max_member_bytes
        self._duplicates: Duplicates = duplicates
        self._compression = compression
        self._fsync = fsync
        self._prefix = check_prefix(prefix)
        url = self._locate(path_or_store, mode, key)
        # If not exactly one name ends with .zip, a marker identifies the archive.
        mark = "" if url.endswith(".zip") and ".zip/" not in url.lower() and "!/" not in url else "!"
        self._url = f"zip::{url}{mark}" + (f"/{quote(prefix[:-1])}" if prefix else "")
        self._begin(mode)

    def _copied(self, path_or_store: Any, mode: ZipMode, key: str | None = None) -> tuple[Any, ...]:
        """Return the function and arguments with which `pickle` makes an equal store."""
        options: dict[str, Any] = {
            "prefix": self._prefix,
            "compression": self._compression,
            "max_member_bytes": self._limit,
            "fsync": self._fsync,
            "duplicates": self._duplicates,
        }
        return (partial(type(self), path_or_store, mode, key=key, **options), ())

    @property
    def url(self) -> str:
        return self._url

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the store of the prefix above in this archive; closing either closes both."""
        above, name = split_root(self._prefix)
        return (with_root(self, _prefix=above, _url=self._url.rpartition("/")[0]), name) if name else None

    def _entry(self, member: Member, version: Version) -> Entry:
        return Entry(member.key[len(self._prefix) :], member.size, version)

    # Both subclasses implement these. They are not abstract, because users call this class.

    def _locate(self, path_or_store: str | os.PathLike[str] | Store, mode: ZipMode, key: str | None) -> str:
        """Check the arguments. Returns: the URL of the archive."""
        raise NotImplementedError

    def _begin(self, mode: ZipMode) -> None:
        """Set `supports`, and create the archive if `mode` says so."""
        raise NotImplementedError

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        raise NotImplementedError

    async def _index(self) -> KeyIndex:
        """Return the index of all members."""
        raise NotImplementedError

    def _version(self, contents: Any, member: Member) -> Version:
        """Return the version of a member."""
        raise NotImplementedError

    async def stat(self, key: str) -> Entry | None:
        check_key(key, store=self._url)
        index = await self._index()
        member = index.members.get(self._prefix + key)
        return None if member is None else self._entry(member, self._version(index, member))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self._url)
        index = await self._index()
        for key in index.below(self._prefix + prefix):
            member = index.members.get(key)
            if member is not None:
                yield self._entry(member, self._version(index, member))

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        check_prefix(prefix, store=self._url)
        keys, prefixes = (await self._index()).children(self._prefix + prefix)
        strip = len(self._prefix)
        return [key[strip:] for key in keys], [each[strip:] for each in prefixes]
