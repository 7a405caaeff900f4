"""The journal of a copy, a record of copied objects that is stored beside them until the copy is complete.

`Journal` is also the base of the journal of conversions. A mirror finds the objects that the destination has already,
and those that the source lacks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from aiozarr.common.concurrency import cancel_and_wait, map_concurrently
from aiozarr.common.formatting import argument, clip, printable
from aiozarr.engine import ScheduledStore
from aiozarr.engine.copy import has_content_tag
from aiozarr.errors import CopyError, StoreError
from aiozarr.metadata.format_rules import FORMATS
from aiozarr.model import JOURNAL_HEADER_KEY, JOURNAL_PREFIX, Entry

MAX_JOURNAL_BYTES = 64 << 20
MIN_WRITE_SECONDS = 1.0
"""Finished work is recorded at most this often, so the work of the last second is repeated after a crash."""


class Journal:
    """A document at the destination, with a checksum. Used on the I/O thread only.

    Args:
        store: the destination.
        key: the key of the document.
    """

    def __init__(self, store: ScheduledStore, key: str) -> None:
        self._store = store
        self._key = key
        self._clock = asyncio.get_running_loop().time
        self._started = self._written = self._clock()

    async def read(self) -> dict[str, Any] | None:
        """Return the members that are stored, `{}` if they are damaged, or None if nothing is stored."""
        value = await self._store.fetch(self._key, max_bytes=MAX_JOURNAL_BYTES)
        if value is None:
            return None
        try:
            members = json.loads(bytes(value.data))
        except (ValueError, RecursionError):
            return {}
        checksum = members.pop("checksum", None) if isinstance(members, dict) else None
        return members if checksum is not None and checksum == checksum_of(members) else {}

    async def write(self, members: dict[str, Any]) -> None:
        """Store the members."""
        self._written = self._clock()
        document = json.dumps({**members, "checksum": checksum_of(members)})
        await self._store.set(self._key, document.encode())

    def is_due(self, share: float = 0.0) -> bool:
        """Return whether finished work is to be recorded now, and begin the next interval if so.

        Args:
            share: the share of the time so far that must have passed since the last record, if that is longer.
        """
        now = self._clock()
        is_due = now - self._written > max(MIN_WRITE_SECONDS, share * (now - self._started))
        if is_due:
            self._written = now
        return is_due


def checksum_of(members: dict[str, Any]) -> str:
    """Return the checksum of the members of a journal."""
    return blake2b(json.dumps(members).encode(), digest_size=16).hexdigest()


HEADER_KEY = JOURNAL_HEADER_KEY
"""The document that describes the copy."""
INVALIDATED_MEMBER = "invalidated"
DIGEST_BYTES = 16
"""Bytes of the record of a copied object. Its digest covers key, size and version."""
WRITE_SHARE = 0.02
"""A batch is written after a second or 2 % of the copy's time: so there are few batches, and an interruption costs
little."""


class CopyJournal(Journal):
    """The records of one copy at its destination. Used on the I/O thread only.

    The header is stored before the first object, and batches of records after the objects that they name, so each
    recorded object is complete. The journal is removed after the last document.

    Args:
        destination: the destination.
        source: the URL of the source; an interrupted copy is only resumed from the same one.
        is_kept: False for a copy that cannot be resumed, whose journal is not stored.

    Attributes:
        has_records: whether the interrupted copy has recorded objects.
        invalidated: the groups above whose consolidated metadata an interrupted copy has invalidated, each as the
            number of levels up to it and its format.
    """

    def __init__(self, destination: ScheduledStore, source: str, *, is_kept: bool = True) -> None:
        super().__init__(destination, HEADER_KEY)
        self.is_kept = is_kept
        self._description = {"format": 1, "source": source}
        self.has_records = False
        self.invalidated: list[tuple[int, int]] = []
        self._copied: set[bytes] = set()
        self._batch = bytearray()
        self._next_number = 0
        self._keys: list[str] = []
        self._task: asyncio.Task[None] | None = None

    async def begin(self, old: Sequence[str] = ()) -> None:
        """Store the header of a new copy, in place of the journal `old`."""
        await self._erase(old)
        self._keys = [HEADER_KEY]
        await self._store_header()

    async def record_invalidated(self, groups: list[tuple[int, int]]) -> None:
        """Record groups whose consolidated metadata is about to be invalidated, in the header that is stored."""
        if self.is_kept and groups != self.invalidated:
            self.invalidated = groups
            await self._store_header()

    async def read_header(self) -> dict[str, Any]:
        """Read which groups the interrupted copy has invalidated.

        Returns: the description of that copy; it is empty if it cannot be read.
        """
        header = await self.read() or {}
        self.invalidated = _group_places(header.pop(INVALIDATED_MEMBER, None))
        return header

    async def resume(self, keys: Sequence[str]) -> None:
        """Read the journal `keys` of the interrupted copy.

        Raises:
            CopyError: it is the journal of another copy, or cannot be read.
        """
        self._keys = list(keys)
        found = await self.read_header()
        if found != self._description:
            url = self._store.store.url
            of = found.get("source")
            what = f"a copy of {clip(printable(str(of)))}" if of else "another copy"
            resume, overwrite = argument("resume", True), argument("overwrite", True)
            raise CopyError(f"{resume} cannot continue {what} at {url}; {overwrite} starts over")
        await self._read_batches()
        numbers = [key.removeprefix(JOURNAL_PREFIX) for key in self._keys]
        self._next_number = max([int(number) for number in numbers if number.isdecimal()], default=-1) + 1

    async def restart(self) -> None:
        """Read the records of this copy, which lists its source again: `take` then finds what it has copied."""
        await self.flush()
        await self._read_batches()

    async def _read_batches(self) -> None:
        batches = [key for key in self._keys if key != HEADER_KEY]
        for value in await map_concurrently(self._store.fetch, batches, concurrency=16):
            data = b"" if value is None else bytes(value.data)
            self._copied.update(data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES))
        self.has_records = bool(self._copied)

    def take(self, entry: Entry) -> bool:
        """Return whether the interrupted copy, or an earlier pass, has copied this state of an object.

        Forget its record, because each object is looked up once, so that the memory serves the objects seen.
        """
        if not self._copied or (record := digest(entry)) not in self._copied:
            return False
        self._copied.remove(record)
        return True

    def add(self, entry: Entry) -> None:
        """Record a copied object."""
        if not self.is_kept:
            return
        self._batch += digest(entry)
        if self._task is None and self.is_due(WRITE_SHARE):
            self._task = asyncio.get_running_loop().create_task(self._write())
            self._task.add_done_callback(self._write_ended)

    async def _write(self) -> None:
        batch, self._batch = bytes(self._batch), bytearray()
        key = f"{JOURNAL_PREFIX}{self._next_number:08}"
        self._next_number += 1
        self._keys.append(key)
        await self._store.set(key, batch)

    def _write_ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            # Objects without a record are copied again, and a failing destination is noticed at the next object.
            task.exception()

    async def flush(self) -> None:
        """Store the remaining records of a copy that ends without being complete."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._batch and self._keys:
            with suppress(StoreError):
                await self._write()

    async def remove(self) -> None:
        """Remove the journal of a complete copy, the header last."""
        await self.close()
        # An interrupted removal must not be followed by a batch without the header.
        self._batch.clear()
        await self._erase(self._keys)

    async def close(self) -> None:
        """Stop writing."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _store_header(self) -> None:
        header = {**self._description, **({INVALIDATED_MEMBER: self.invalidated} if self.invalidated else {})}
        await self.write(header)

    async def _erase(self, keys: Sequence[str]) -> None:
        batches = [key for key in keys if key != HEADER_KEY]
        if batches:
            await self._store.erase_values(batches)
        if len(batches) < len(keys):
            await self._store.erase(HEADER_KEY)


def is_journal_key(key: str) -> bool:
    """Return whether `key` belongs to the journal of a copy to this store, or to a node of it."""
    return key.startswith(JOURNAL_PREFIX) or f"/{JOURNAL_PREFIX}" in key


def digest(entry: Entry, size: int = DIGEST_BYTES, *, prefix: str = "") -> bytes:
    """Return the record of an object: a digest, of `size` bytes, of its key, size and version."""
    version = entry.version
    tag = "" if version is None else f"{version.etag}\0{version.generation}"
    text = f"{prefix}{entry.key}\0{entry.size}\0{tag}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def size_hash(entry: Entry) -> int:
    """Return a hash of an object's key and size, which takes less memory than these."""
    return hash((entry.key, entry.size))


def _group_places(recorded: object) -> list[tuple[int, int]]:
    """Return the recorded groups: each as the number of levels up to it, at least 1, and its format."""
    places: list[tuple[int, int]] = []
    for place in recorded if isinstance(recorded, list) else ():
        match place:
            case [int(levels), int(zarr_format)] if levels >= 1 and zarr_format in FORMATS:
                places.append((levels, zarr_format))
    return places


class Mirror:
    """Decides which objects of a source a destination has already, and which of its objects the source lacks.

    It holds hashes, so that a million objects take 230 MB. A hash that two keys share keeps an object that should be
    deleted; among a million keys this has a probability of 1 to 2 million.
    """

    def __init__(self) -> None:
        self._keys: set[int] = set()
        self._stored: set[bytes] = set()
        self._sizes: set[int] = set()

    def add_stored(self, entry: Entry) -> None:
        """Record an object of the destination."""
        self._sizes.add(size_hash(entry))
        if entry.version is not None and has_content_tag(entry.version):
            self._stored.add(digest(entry))

    def add_key(self, key: str) -> None:
        """Record a key of the source."""
        self._keys.add(hash(key))

    def forget_keys(self) -> None:
        """Remove all recorded keys of the source, which is listed again."""
        self._keys.clear()

    def discard_key(self, key: str) -> None:
        """Remove a recorded key that the source does not have after all."""
        self._keys.discard(hash(key))

    def may_have(self, entry: Entry) -> bool:
        """Return whether the destination has an object of equal key and size."""
        return size_hash(entry) in self._sizes

    def is_stored(self, entry: Entry) -> bool:
        """Return whether the destination has an object of equal key, size and content."""
        if not self._stored or entry.version is None or not has_content_tag(entry.version):
            return False
        return digest(entry) in self._stored

    def __contains__(self, key: str) -> bool:
        return hash(key) in self._keys
