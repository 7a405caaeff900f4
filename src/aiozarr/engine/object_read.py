"""Reads of one object in parts of one version, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from aiozarr.common.concurrency import for_each, gather_all
from aiozarr.engine.fetch_request import can_condition
from aiozarr.errors import ChangedError, CodecError, ShortReadError
from aiozarr.memory import empty_bytes
from aiozarr.model import Range, Value, Version
from aiozarr.schedule.coalesce import split_range
from aiozarr.stores.capabilities import FetchIntoStore, ResponseHead
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.http1.response_check import BodyPieces

MAX_ATTEMPTS = 4
"""How often a read begins again of an object that is replaced while it is read."""


class RunRequest(Protocol):
    """Schedules and repeats one request of a `MultipartRead`."""

    def __call__(self, part: Range | None, *, is_first: bool) -> Coroutine[Any, Any, Value | None]:
        """Await `MultipartRead.fetch(part)` when there is room for a request, again if it fails and may be repeated.

        Returns: the response, or None if nothing is stored.
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


class ReadTarget(Protocol):
    """Receives the bytes of a `MultipartRead`, part by part and in any order. Offsets count from its first byte."""

    def begin(self, nbytes: int) -> None:
        """Prepare for `nbytes` bytes in all, before the first of them arrive."""

    def place(self, start: int, stop: int) -> memoryview | BodyPieces:
        """Return the memory for these bytes, which a response is about to bring, or a receiver of their pieces."""
        ...

    async def put(self, start: int, data: memoryview) -> None:
        """Take over bytes that were not received in place."""

    async def settle(self) -> None:
        """Wait until the pieces that have been received are processed."""

    def take(self) -> Buffer:
        """Return the bytes, if they are held in memory, and hold them no longer."""
        ...


class MemoryTarget:
    """Memory for all bytes of a `MultipartRead`.

    Args:
        copy: copies bytes that were not received in place; None to copy them on the loop.
    """

    def __init__(self, copy: Callable[[memoryview, memoryview], Awaitable[object]] | None = None) -> None:
        self._memory = memoryview(b"")
        self._copy = copy

    def begin(self, nbytes: int) -> None:
        """Allocate memory for `nbytes` bytes."""
        self._memory = empty_bytes(nbytes)

    def place(self, start: int, stop: int) -> memoryview:
        """Return the memory of these bytes."""
        return self._memory[start:stop]

    async def put(self, start: int, data: memoryview) -> None:
        """Copy `data` to its place."""
        memory = self._memory[start : start + data.nbytes]
        if self._copy is None:
            memory[:] = data
        else:
            await self._copy(memory, data)

    async def settle(self) -> None:
        """Return at once."""

    def take(self) -> Buffer:
        """Return the memory, and hold it no longer."""
        memory, self._memory = self._memory, memoryview(b"")
        return memory


@dataclass(eq=False)
class MultipartRead:
    """Read one object, or a range of it, in parts of one version, side by side, into one target.

    The first part goes ahead. Size and version are in the head of its response, before its bytes come. Then the target
    begins, and the other parts are requested on the condition that the object still has that version. A server that
    answers with the whole object has answered all of it; one without versions is asked for the whole object then. An
    object that was replaced meanwhile is read again, at last by one request, unless `if_match` names its version.

    Args:
        store, key: the object.
        byte_range: the range; None for all of the object.
        if_match: the version that it must have, if that is known.
        limits: sizes of the parts.
        run_request: schedules one request.
        on_size: called with the number of bytes when it is known, before their memory is allocated.
        on_wasted: called if the bytes of the first part come once more, with the whole object.
        max_attempts: how often the read begins if the object is replaced meanwhile.
        target: receives the bytes.
        size: the size that the object must have, if that is known.
    """

    store: Store
    key: str
    byte_range: Range | None
    if_match: Version | None
    limits: PartLimits
    run_request: RunRequest
    _: KW_ONLY
    on_size: Callable[[int], object] = lambda _: None
    on_wasted: Callable[[], object] = lambda: None
    max_attempts: int = MAX_ATTEMPTS
    target: ReadTarget = field(default_factory=MemoryTarget)
    size: int | None = None

    def __post_init__(self) -> None:
        self._start = 0 if self.byte_range is None else self.byte_range.start
        self.first = Range(self._start, self.limits.first)
        self._reset()

    def _reset(self) -> None:
        self._version = self.if_match
        self._size = self.size
        self._total: int | None = None
        self._others: list[Range] = []
        self._head: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read(self) -> Value | None:
        """Return the bytes with the size and version of the object; None if it is not stored.

        Raises:
            ChangedError: the object does not have the version `if_match`, or is gone.
            LimitError: the store sent all of an object of more bytes than the limits accept.
            CodecError: the object has more bytes than the limits accept.
        """
        for attempt in range(1, self.max_attempts + 1):
            try:
                await gather_all([self._read_first(), self._read_others()])
            except ChangedError:
                if self.if_match is not None:
                    raise
                self._reset()
                if attempt == self.max_attempts:
                    # Some servers refuse each condition, or have replicas with versions of their own.
                    await self._receive_whole()
            else:
                break
        return None if self._total is None else Value(self.target.take(), self._version, self._size)

    async def _read_first(self) -> None:
        value = await self.run_request(self.first, is_first=True)
        if value is None and (self._total is not None or self.if_match is not None):
            raise self._changed_error()
        if value is not None and self._total is None:
            await self._receive_late(value)
        if not self._head.done():
            self._head.set_result(None)

    async def _read_others(self) -> None:
        await self._head
        await for_each(self._read_part, self._others)

    async def _read_part(self, part: Range) -> None:
        if await self.run_request(part, is_first=False) is None:
            raise self._changed_error(part)

    # --- one attempt at one request ---------------------------------------------------------------------------------

    async def fetch(self, part: Range | None) -> Value | None:
        """Fetch one part, or with None the whole object, once; put its bytes in their place.

        Raises:
            ChangedError, ShortReadError: the response does not fit the others.
        """
        store, version = self.store, self._version
        condition = version if can_condition(store, version) else None
        bound: dict[str, Any] = {"max_bytes": self.limits.total} if store.has_bounded_reads else {}
        if part is None:
            return await store.fetch(self.key, if_match=condition, **bound)
        if self._total is None and self.byte_range is not None and self.byte_range.length is not None:
            # Version and end are known: the others need not wait.
            self._begin(self.byte_range.length, part.start + self.limits.first)
        place: memoryview | BodyPieces | None = None
        placed_bytes = 0

        def receive(head: ResponseHead) -> memoryview | BodyPieces | None:
            nonlocal place, placed_bytes
            place, placed_bytes = self._place(head), head.stop - head.start
            return place

        is_beginning = self.byte_range is None and part is self.first
        try:
            if isinstance(store, FetchIntoStore):
                full = bound if is_beginning else {}
                value = await store._fetch_into(
                    self.key, part, receive, if_match=condition, accept_full=is_beginning, **full
                )
            else:
                value = await store.fetch(self.key, part, if_match=condition)
        except ShortReadError as error:
            if error.retryable or not is_beginning:
                raise
            # The server has clipped the part without the object's size. The whole object proves its length.
            self.on_wasted()
            return await self.fetch(None)
        if value is None or self._total is None:
            return value
        if place is None:
            data = memoryview(value.data)
            placed_bytes = data.nbytes
            at = 0 if value.size == placed_bytes else part.start - self._start
            if at + placed_bytes <= self._total:
                await self.target.put(at, data)
        else:
            await self.target.settle()
        self._check(value, part, placed_bytes)
        return value

    def _place(self, head: ResponseHead) -> memoryview | BodyPieces | None:
        """Return the memory for the bytes of a response whose head has arrived; None to check the bytes later."""
        if self._total is None:
            complete = head.stop - head.start == head.size
            if head.size is None or head.size > self.limits.total:
                return None
            if head.version is None and not complete and not self.limits.accepts_unversioned:
                return None
            self._version, self._size = head.version, head.size
            self._begin(head.size, head.stop)
        elif head.version != self._version or self._size not in (None, head.size):
            return None  # and `_check` raises
        return self.target.place(head.start - self._start, head.stop - self._start)

    def _begin(self, total: int, behind: int) -> None:
        """Have the target take `total` bytes, and the other parts requested: those from `behind` on."""
        self.on_size(total)
        self._total = total
        self.target.begin(total)
        self._others = split_range(behind, self._start + total, self.limits.others)
        if not self._head.done():
            self._head.set_result(None)

    async def _receive_late(self, value: Value) -> None:
        """Take bytes that the store did not announce, or could not announce."""
        data, size = memoryview(value.data), value.size
        if size is not None and size > self.limits.total:
            reason = f"the object has {size} bytes, {self.limits.reason}"
            raise CodecError(reason, store=self.store.url, key=self.key)
        is_versioned = value.version is not None or self.limits.accepts_unversioned
        if size is None or (size != data.nbytes and not is_versioned):
            # Nothing says what comes after the first part, or whether it is of the same version.
            self._version = value.version
            self.on_wasted()
            await self._receive_whole()
            return
        self._version, self._size = value.version, size
        self._begin(size, data.nbytes)
        await self.target.put(0, data)

    async def _receive_whole(self) -> None:
        """Take the whole object by one request, whose response is of one version."""
        whole = await self.run_request(None, is_first=False)
        if whole is None:
            raise self._changed_error()
        data = memoryview(whole.data)
        self._version, self._size = whole.version, data.nbytes
        self._begin(data.nbytes, data.nbytes)
        await self.target.put(0, data)

    def _check(self, value: Value, part: Range, got: int) -> None:
        """Check that a response has the version and size of the others, and the length of its part."""
        if value.version is not None and self._version is not None and value.version != self._version:
            raise self._changed_error(part)
        if None not in (value.size, self._size) and value.size != self._size:
            raise self._changed_error(part)
        assert part.length is not None
        if got < (part.length if self._size is None else min(part.length, self._size - part.start)):
            raise ShortReadError(
                f"received {got} of the {part.length} bytes requested",
                store=self.store.url,
                key=self.key,
                range=part,
            )

    def _changed_error(self, part: Range | None = None) -> ChangedError:
        reason = "the object was replaced while it was being read"
        return ChangedError(reason, store=self.store.url, key=self.key, range=part or self.byte_range)
