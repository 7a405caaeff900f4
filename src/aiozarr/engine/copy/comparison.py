"""Checks of copied objects, and comparisons: of versions, checksums in ETags, bytes, and a response with its entry."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING, Literal, TypeAlias

from aiozarr.common.concurrency import gather_all
from aiozarr.engine.scheduled_store import ScheduledStore
from aiozarr.errors import StoreError
from aiozarr.model import Entry, Range, Value, Version
from aiozarr.stores import byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

Verify: TypeAlias = Literal["size", "checksum"] | None
"""How a stored object is checked, as of `aiozarr.copy`."""

COMPARED_BYTES = 256 << 10
"""Bytes that are compared at once: they are copied for it, into a processor's cache."""
MD5_DIGITS = 32


def same_version(one: Version | None, other: Version | None) -> bool | None:
    """Return whether two versions are equal, or None if they cannot be compared.

    A listing may report less than a response, such as the ETag without the generation: what both report is compared.
    """
    if one is None or other is None:
        return None
    if one.generation is not None and other.generation is not None:
        return one.generation == other.generation
    if one.etag is not None and other.etag is not None:
        return one.etag.removeprefix("W/") == other.etag.removeprefix("W/")
    return None


def size_of(value: Value) -> int:
    """Return the size of the object of a response, which may be truncated."""
    return memoryview(value.data).nbytes if value.size is None else value.size


def is_replaced(listed: Entry, value: Value, *, previous_size: int | None, strict: bool) -> bool | None:
    """Return whether a fetched object is a later one than the listed one, or None if it may be truncated.

    Args:
        listed: the entry of the listing.
        value: the object, as it was fetched whole.
        previous_size: the size of the previous fetch, if there was one.
        strict: whether a size that differs from the listing's must be confirmed.
    """
    same, size = same_version(listed.version, value.version), size_of(value)
    if memoryview(value.data).nbytes != size:
        return None
    if same is False:
        return True
    if listed.size is None or listed.size == size:
        return False
    # One version of an object has one size. Without versions, two fetches must agree on the size.
    return None if strict and (same or previous_size != size) else True


def content_tag(data: Buffer) -> str:
    """Return the MD5 of `data` as an ETag."""
    return f'"{md5(byte_view(data), usedforsecurity=False).hexdigest()}"'


def has_content_tag(version: Version) -> bool:
    """Return whether an ETag may be the MD5 of the content: it has that form, and is no multipart upload's."""
    if version.etag is None or version.generation is not None:
        return False
    tag = version.etag.strip('"')
    return len(tag) == MD5_DIGITS and all(digit in "0123456789abcdef" for digit in tag)


def equal_bytes(one: Buffer, other: Buffer) -> bool:
    """Return whether two buffers have the same bytes."""
    first, second = byte_view(one), byte_view(other)
    # memoryviews compare byte by byte, as Python objects; bytes compare memory.
    return first.nbytes == second.nbytes and all(
        bytes(first[at : at + COMPARED_BYTES]) == bytes(second[at : at + COMPARED_BYTES])
        for at in range(0, first.nbytes, COMPARED_BYTES)
    )


async def have_equal_bytes(source: ScheduledStore, entry: Entry, destination: ScheduledStore, stored: Entry) -> bool:
    """Return whether two objects have equal bytes, by reading both: large ones in parts, one after the other.

    An object that cannot be read has no equal: copying it shows what is wrong.
    """
    part_bytes = source.settings.max_request_bytes
    sides = ((source, entry), (destination, stored))
    is_ranged = all(side.store.supports.partial_reads for side, _ in sides)
    size = entry.size if is_ranged and entry.size == stored.size else None
    parts = [Range(start, part_bytes) for start in range(0, size or 0, part_bytes)]
    for part in parts if len(parts) > 1 else [None]:
        try:
            one, other = await gather_all(side.fetch(each.key, part, if_match=each.version) for side, each in sides)
        except StoreError:
            return False
        if one is None or other is None or not equal_bytes(one.data, other.data):
            return False
    return True
