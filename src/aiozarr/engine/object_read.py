"""Reads of one object by several requests: in parts of one version, and of its last bytes without suffix ranges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from aiozarr.common.concurrency import gather_all
from aiozarr.engine.cache.sizes import SizeCache
from aiozarr.engine.plan.multipart_plan import split_range
from aiozarr.errors import ChangedError, CodecError, ShortReadError, located
from aiozarr.memory import empty_bytes
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version
from aiozarr.stores import object_tail
from aiozarr.stores.capabilities import FetchIntoStore, ResponseHead
from aiozarr.stores.contract import Store

MAX_ATTEMPTS = 4
"""How often a read begins again of an object that is replaced while it is read."""


class RunRequest(Protocol):
    """Schedules and repeats one request of a `MultipartRead`."""

    def __call__(self, part: Range | None, *, is_first: bool) -> Coroutine[Any, Any, Value | None]:
        """Await `MultipartRead.fetch(part)` when there is room for a request, again if it fails and may be repeated.

        Returns: the answer, or None if nothing is stored.
        """
        ...


@dataclass(frozen=True)
class PartLimits:
    """Sizes of a read in parts, in bytes.

    Attributes:
        first: the first part, which goes ahead if the size of the object is not known.
        others: the largest of the other parts.
        total: the largest object that is accepted.
        reason: the end of the message for a larger one.
        accepts_unversioned: whether the parts of an object without a version are accepted, if their sizes agree.
    """

    first: int
    others: int
    total: int
    reason: str
    accepts_unversioned: bool = False


class MultipartRead:
    """Read one object, or a range of it, in parts of one version, side by side, into one memory.

    The first part goes ahead. Size and version are in the head of its answer, before its bytes come. Then memory is
    allocated, and the other parts are requested on the condition that the object still has that version. A server that
    answers with the whole object has answered all of it; one without versions is asked for the whole object then. An
    object that was replaced meanwhile is read again, unless `if_match` names its version.

    Args:
        store, key: the object.
        byte_range: the range; None for all of the object.
        if_match: the version that it must have, if that is known.
        limits: sizes of the parts.
        run_request: schedules one request.
        on_size: called with the number of bytes when it is known, before their memory is allocated.
        on_wasted: called if the bytes of the first part come once more, with the whole object.
        max_attempts: how often the read begins if the object is replaced meanwhile.
        copy: copies bytes that were not received in place; None to copy them on the loop.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        byte_range: Range | None,
        if_match: Version | None,
        limits: PartLimits,
        run_request: RunRequest,
        *,
        on_size: Callable[[int], object],
        on_wasted: Callable[[], object],
        max_attempts: int = MAX_ATTEMPTS,
        copy: Callable[[memoryview, memoryview], Awaitable[object]] | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._range = byte_range
        self._if_match = if_match
        self._limits = limits
        self._run_request = run_request
        self._on_size = on_size
        self._on_wasted = on_wasted
        self._max_attempts = max_attempts
        self._copy = copy
        self._start = 0 if byte_range is None else byte_range.start
        self.first = Range(self._start, limits.first)
        self._reset()

    def _reset(self) -> None:
        self._version = self._if_match
        self._size: int | None = None
        self._memory: memoryview | None = None
        self._others: list[Range] = []
        self._head: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read(self) -> Value | None:
        """Return the bytes with the size and version of the object; None if it is not stored.

        Raises:
            ChangedError: the object does not have the version `if_match`, or is replaced again and again.
            LimitError: the store sent all of an object of more bytes than the limits accept.
            CodecError: the object has more bytes than the limits accept.
        """
        for attempt in range(1, self._max_attempts + 1):
            try:
                await gather_all([self._read_first(), self._read_others()])
            except ChangedError:
                if self._if_match is not None or attempt == self._max_attempts:
                    raise
                self._reset()
            else:
                break
        memory, self._memory = self._memory, None
        return None if memory is None else Value(memory, self._version, self._size)

    async def _read_first(self) -> None:
        value = await self._run_request(self.first, is_first=True)
        if value is None and (self._memory is not None or self._if_match is not None):
            raise self._changed_error()
        if value is not None and self._memory is None:
            await self._receive_late(value)
        if not self._head.done():
            self._head.set_result(None)

    async def _read_others(self) -> None:
        await self._head
        await gather_all(self._read_part(part) for part in self._others)

    async def _read_part(self, part: Range) -> None:
        if await self._run_request(part, is_first=False) is None:
            raise self._changed_error(part)

    # --- one attempt at one request ---------------------------------------------------------------------------------

    async def fetch(self, part: Range | None) -> Value | None:
        """Fetch one part, or with None the whole object, once; put its bytes in their place.

        Raises:
            ChangedError, ShortReadError: the answer does not fit to the others.
        """
        store, version = self._store, self._version
        condition = version if _can_condition(store, version) else None
        bound: dict[str, Any] = {"max_bytes": self._limits.total} if store.has_bounded_reads else {}
        if part is None:
            return await store.fetch(self._key, if_match=condition, **bound)
        if self._memory is None and self._range is not None and self._range.length is not None:
            # Version and end are known: the others need not wait.
            self._allocate(self._range.length, part.start + self._limits.first)
        placed: memoryview | None = None

        def receive(head: ResponseHead) -> memoryview | None:
            nonlocal placed
            placed = self._place(head)
            return placed

        is_beginning = self._range is None and part is self.first
        try:
            if isinstance(store, FetchIntoStore):
                full = bound if is_beginning else {}
                value = await store.fetch_into(
                    self._key, part, receive, if_match=condition, accept_full=is_beginning, **full
                )
            else:
                value = await store.fetch(self._key, part, if_match=condition)
        except ShortReadError as error:
            if error.retryable or not is_beginning:
                raise
            # The server has clipped the part without the object's size. The whole object proves its length.
            self._on_wasted()
            return await self.fetch(None)
        memory = self._memory
        if value is None or memory is None:
            return value
        if value.data is not placed:
            data = memoryview(value.data)
            at = 0 if value.size == data.nbytes else part.start - self._start
            if at + data.nbytes <= len(memory):
                await self._put(memory[at : at + data.nbytes], data)
        self._check(value, part)
        return value

    def _place(self, head: ResponseHead) -> memoryview | None:
        """The head of an answer has come: return the memory for its bytes; None to look at them when they are there."""
        if self._memory is None:
            complete = head.stop - head.start == head.size
            if head.size is None or head.size > self._limits.total:
                return None
            if head.version is None and not complete and not self._limits.accepts_unversioned:
                return None
            self._version, self._size = head.version, head.size
            self._allocate(head.size, head.stop)
        elif head.version != self._version or self._size not in (None, head.size):
            return None  # and `_check` raises
        assert self._memory is not None
        return self._memory[head.start - self._start : head.stop - self._start]

    def _allocate(self, total: int, behind: int) -> None:
        """Take memory for `total` bytes, and have the others requested: those from `behind` on."""
        self._on_size(total)
        self._memory = empty_bytes(total)
        self._others = split_range(behind, self._start + total, self._limits.others)
        if not self._head.done():
            self._head.set_result(None)

    async def _receive_late(self, value: Value) -> None:
        """Take the bytes of a store that does not announce them, or in a way that could not be announced."""
        data, size = memoryview(value.data), value.size
        if size is not None and size > self._limits.total:
            reason = f"the object has {size} bytes, {self._limits.reason}"
            raise CodecError(reason, store=self._store.url, key=self._key)
        is_versioned = value.version is not None or self._limits.accepts_unversioned
        if size is None or (size != data.nbytes and not is_versioned):
            # Nothing says what comes after the first part, or whether it is of the same version.
            self._version = value.version
            self._on_wasted()
            whole = await self._run_request(None, is_first=False)
            if whole is None:
                raise self._changed_error()
            data, size, value = memoryview(whole.data), memoryview(whole.data).nbytes, whole
        self._version, self._size = value.version, size
        self._allocate(size, data.nbytes)
        assert self._memory is not None
        await self._put(self._memory[: data.nbytes], data)

    async def _put(self, target: memoryview, data: memoryview) -> None:
        if self._copy is None:
            target[:] = data
        else:
            await self._copy(target, data)

    def _check(self, value: Value, part: Range) -> None:
        """Check that an answer has the version and size of the others, and the length of its part."""
        if value.version is not None and self._version is not None and value.version != self._version:
            raise self._changed_error(part)
        if None not in (value.size, self._size) and value.size != self._size:
            raise self._changed_error(part)
        assert part.length is not None
        got = memoryview(value.data).nbytes
        if got < (part.length if self._size is None else min(part.length, self._size - part.start)):
            raise ShortReadError(
                f"{got} bytes came where {part.length} were asked for",
                store=self._store.url,
                key=self._key,
                range=part,
            )

    def _changed_error(self, part: Range | None = None) -> ChangedError:
        reason = "the object was replaced while it was being read"
        return ChangedError(reason, store=self._store.url, key=self._key, range=part or self._range)


async def fetch_tail(
    store: Store,
    key: str,
    suffix: Suffix,
    sizes: SizeCache,
    *,
    if_match: Version | None,
    max_bytes: int | None,
    on_lookup: Callable[[], object],
) -> Value | None:
    """Fetch the last bytes of an object from a store that refuses suffix ranges.

    The size is looked up unless `sizes` has it. `on_lookup` is called for each request besides the last one.

    `max_bytes` is as of `Store.fetch`: None for a store without bounded reads.

    Raises:
        ChangedError: the object is replaced again and again, or does not have the version `if_match`.
        LimitError: the bytes are more than `max_bytes`.
    """
    bound = {} if max_bytes is None else {"max_bytes": max_bytes}
    known = sizes.get(store, key)
    if known is not None and if_match not in (None, known.version):
        known = None

    async def stat() -> Entry | None:
        on_lookup()
        entry = await store.stat(key)
        sizes.record(store, key, None if entry is None else entry.size, None if entry is None else entry.version)
        return entry

    async def fetch(tail: ByteRange, version: Version | None) -> Value | None:
        condition = version if _can_condition(store, version) else None
        value = await store.fetch(key, tail, if_match=condition, **bound)
        if value is None:
            sizes.drop(store, key)
        return value

    def forget() -> None:
        on_lookup()
        sizes.drop(store, key)

    with located(store=store.url, key=key):
        return await object_tail.fetch_tail(suffix, stat, fetch, if_match=if_match, known=known, on_changed=forget)


def _can_condition(store: Store, version: Version | None) -> bool:
    return version is not None and not version.weak and store.supports.conditional_reads
