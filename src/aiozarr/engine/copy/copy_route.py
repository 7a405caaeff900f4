"""Chooses the route of an object from store to store. Pure: it knows sizes, versions and abilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from aiozarr.engine.copy.comparison import Verify
from aiozarr.model import Entry
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore, Store
from aiozarr.stores.capabilities import CopyFromStore, NowaitStore, UploadStore

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
            copies_on_server=isinstance(destination, CopyFromStore) and destination.can_copy_from(source),
            reads_files=isinstance(source, LocalStore),
            blocks=isinstance(source, BlockingStore),
            sends_nowait=isinstance(source, NowaitStore),
            pins_versions=source.supports.partial_reads and source.supports.conditional_reads,
            writes_files=isinstance(destination, LocalStore),
            blocks_writer=isinstance(destination, BlockingStore),
            can_upload=destination.can_upload if isinstance(destination, UploadStore) else None,
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
