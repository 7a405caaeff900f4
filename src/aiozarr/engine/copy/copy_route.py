"""Chooses the route of an object from store to store, and compares what was copied.

The choice is pure: it knows sizes, versions and abilities. Compared are versions, checksums in ETags, bytes, and a
response with its entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hashlib import md5
from typing import TYPE_CHECKING, Literal, TypeAlias

from aiozarr.common.concurrency import gather_all
from aiozarr.engine.scheduled_store import ScheduledStore
from aiozarr.errors import StoreError
from aiozarr.model import Entry, Range, Value, Version
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore, Store
from aiozarr.stores.capabilities import CopyFromStore, NowaitStore, UploadStore
from aiozarr.stores.contract import byte_view

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

    An object that cannot be read has no equal, because copying it raises the error.
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


MAX_UPLOADED_BYTES = 1 << 20
"""Larger files are read while they are sent, where the destination can."""
MAX_PART_BYTES = 8 << 20
"""Parts of a large object: large enough that the time of a request does not count."""


class CopyRoute(Enum):
    """The routes of an object."""

    SERVER = "the server copies the object itself"
    STREAMED = "the file is read while it is sent"
    PARTS = "parts of one version are written into the new file while they arrive"
    BATCH = "a worker reads small files, and writes them if the destination is local"
    QUEUED = "the queue requests the object without a task, and a worker writes it"
    WHOLE = "the object is fetched whole, and then stored"


@dataclass(frozen=True)
class CopyPolicy:
    """How the objects of one copy are stored.

    Attributes:
        verify: how each stored object is checked.
        if_absent: store an object only if nothing is stored under its key, where the store can check that.
        may_be_missing: the entries follow from metadata, so that chunks among them may not be stored.
    """

    verify: Verify = "size"
    if_absent: bool = False
    may_be_missing: bool = False


@dataclass(frozen=True)
class CopyFacts:
    """The facts that are equal for all objects of one copy.

    Attributes:
        policy: how objects are stored.
        part_bytes: the size of the parts of a large object.
        is_observed: whether a listener receives an event for each request.
        copies_on_server: whether the server of the destination may copy objects of the source.
        reads_files, blocks: whether the source is a directory, and whether its calls block a thread.
        sends_nowait: whether requests to the source need no task.
        pins_versions: whether the source returns ranges of one version.
        writes_files, blocks_writer: whether the destination is a directory, and whether its calls block a thread.
        can_upload: returns whether the destination takes an object of this size in pieces; None if it takes none.
    """

    policy: CopyPolicy
    part_bytes: int = MAX_PART_BYTES
    is_observed: bool = False
    copies_on_server: bool = False
    reads_files: bool = False
    blocks: bool = False
    sends_nowait: bool = False
    pins_versions: bool = False
    writes_files: bool = False
    blocks_writer: bool = False
    can_upload: Callable[[int], bool] | None = None

    @classmethod
    def from_stores(cls, source: Store, destination: Store, policy: CopyPolicy, settings: Settings) -> CopyFacts:
        """Return the facts of a copy between two stores."""
        return cls(
            policy,
            part_bytes=min(settings.max_request_bytes, MAX_PART_BYTES),
            is_observed=settings.on_event is not None,
            copies_on_server=isinstance(destination, CopyFromStore) and destination._can_copy_from(source),
            reads_files=isinstance(source, LocalStore),
            blocks=isinstance(source, BlockingStore),
            sends_nowait=isinstance(source, NowaitStore),
            pins_versions=source.supports.partial_reads and source.supports.conditional_reads,
            writes_files=isinstance(destination, LocalStore),
            blocks_writer=isinstance(destination, BlockingStore),
            can_upload=destination._can_upload if isinstance(destination, UploadStore) else None,
        )


def copy_route(facts: CopyFacts, entry: Entry) -> CopyRoute:
    """Return the route of an object.

    Args:
        facts: the facts of the copy.
        entry: the object as it is listed. Without a size, it is fetched whole.
    """
    size, version, policy = entry.size, entry.version, facts.policy
    if facts.copies_on_server and not policy.if_absent and size is not None and version is not None:
        return CopyRoute.SERVER
    is_streamable = size is not None and size > MAX_UPLOADED_BYTES and facts.reads_files
    if size is not None and is_streamable and facts.can_upload is not None and facts.can_upload(size):
        return CopyRoute.STREAMED
    if size is not None and size > facts.part_bytes:
        # Bytes that are read back are compared with those in memory.
        is_pinned = facts.pins_versions and version is not None and not version.weak
        return CopyRoute.PARTS if is_pinned and facts.writes_files and policy.verify != "checksum" else CopyRoute.WHOLE
    if facts.is_observed or policy.if_absent:
        return CopyRoute.WHOLE  # events and conditions need one request for each object
    if facts.blocks:
        return CopyRoute.WHOLE if size is None else CopyRoute.BATCH
    is_queued = facts.sends_nowait and facts.blocks_writer and (size is not None or policy.may_be_missing)
    return CopyRoute.QUEUED if is_queued else CopyRoute.WHOLE
