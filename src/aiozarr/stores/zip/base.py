"""A store in a zip archive, one member per key: what its two kinds, on disk and behind other stores, share."""

from __future__ import annotations

import os
import zipfile
from collections.abc import AsyncIterator
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from aiozarr.model import (
    ByteRange,
    Entry,
    Value,
    Version,
    check_key,
    check_prefix,
)
from aiozarr.settings import GIB
from aiozarr.stores.contract import Store
from aiozarr.stores.zip.contents import Duplicates, Names
from aiozarr.stores.zip.format import Member

_kinds: dict[bool, type[ZipStore]] = {}
ZipMode: TypeAlias = Literal["r", "w", "a", "x"]


class ZipStore(Store):
    """The members of a zip archive.

    On the local disk it is read and written. Modes are those of `zipfile`: "r" reads, "w" starts a new archive in place
    of any other, "x" starts one where there is none, "a" changes one, or starts it. What is written goes into a
    temporary file, and becomes the archive when the store is closed: whole or not at all. Until then the stores of this
    process see it, and others see the archive as it was. A value may be replaced and erased like any other; the archive
    never holds a name twice. Where another process has changed the archive meanwhile, closing raises
    `PreconditionFailedError`: no update is lost unseen.

    Behind another store it is read: the directory once, then one range per value. A range of a value that is not
    compressed costs the bytes of that range (and its header beside the first one, where the archive's writer may have
    put something between). Where that store cannot read parts, an archive of up to 64 MiB is fetched whole and kept.

    Stored, deflated, bzip2 and LZMA members are read; whole values are checked against their checksums. An archive with
    names that are no keys, a name twice, links, encrypted or overlapping members is refused.
    """

    _url: str
    _prefix: str
    _limit: int

    def __new__(cls, path_or_store: str | os.PathLike[str] | Store, *arguments: Any, **options: Any) -> Self:
        kind: Any = _kinds[isinstance(path_or_store, Store)] if cls is ZipStore else cls
        made: Self = object.__new__(kind)
        return made

    def __init_subclass__(cls, *, behind_store: bool, **options: Any) -> None:
        super().__init_subclass__(**options)
        _kinds[behind_store] = cls

    def __init__(
        self,
        path_or_store: str | os.PathLike[str] | Store,
        mode: ZipMode = "r",
        *,
        key: str | None = None,
        prefix: str = "",
        compression: int = zipfile.ZIP_STORED,
        max_member_bytes: int = GIB,
        durable: bool = False,
        duplicates: Duplicates = "refuse",
    ) -> None:
        """Describe the store; an archive that is read is opened by the first operation.

        Args:
            path_or_store: the path of the archive, or the store that holds it.
            mode: "r", "w", "x" or "a"; behind another store, "r".
            key: the archive's key in that store.
            prefix: what lies below it is the store: `""`, or ending with `/`.
            compression: of what is written: `zipfile.ZIP_STORED` or `zipfile.ZIP_DEFLATED`. Chunks are compressed
                already, and ranges are read from stored members only.
            max_member_bytes: what a compressed member may decompress to; beyond that `LimitError`.
            durable: flush the archive to the device before a close counts as done.
            duplicates: what is done with an archive that holds a name twice, as zarr-python's `ZipStore` leaves one
                when it replaces a document: "refuse", since readers differ in which member they take, or "last".

        Raises:
            ValueError, TypeError: an argument is not what it should be.
            PreconditionFailedError: the mode is "x", and there is something already.
        """
        raise NotImplementedError  # `__new__` makes one of the two kinds below

    def _describe(self, url: str, prefix: str, max_member_bytes: int, duplicates: Duplicates) -> None:
        if duplicates not in ("refuse", "last"):
            raise ValueError(f"duplicates is 'refuse' or 'last', not {duplicates!r}")
        self._prefix = check_prefix(prefix)
        # More than one name with the ending, or none: a mark says which of them is the archive.
        mark = "" if url.endswith(".zip") and ".zip/" not in url.lower() and "!/" not in url else "!"
        self._url = f"zip::{url}{mark}" + (f"/{quote(prefix[:-1])}" if prefix else "")
        self._limit = max_member_bytes
        self._duplicates: Duplicates = duplicates

    @property
    def url(self) -> str:
        return self._url

    def _entry(self, member: Member, version: Version) -> Entry:
        return Entry(member.key[len(self._prefix) :], member.size, version)

    # Both kinds implement these; they are not abstract, because it is this class that users call.

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        raise NotImplementedError

    async def _names(self) -> Names:
        """Return what is there to be listed."""
        raise NotImplementedError

    def _version(self, names: Any, member: Member) -> Version:
        """Return the version of a member."""
        raise NotImplementedError

    async def stat(self, key: str) -> Entry | None:
        check_key(key, store=self._url)
        names = await self._names()
        member = names.members.get(self._prefix + key)
        return None if member is None else self._entry(member, self._version(names, member))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self._url)
        names = await self._names()
        for key in names.below(self._prefix + prefix):
            member = names.members.get(key)
            if member is not None:
                yield self._entry(member, self._version(names, member))

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        check_prefix(prefix, store=self._url)
        keys, prefixes = (await self._names()).children(self._prefix + prefix)
        strip = len(self._prefix)
        return [key[strip:] for key in keys], [each[strip:] for each in prefixes]
