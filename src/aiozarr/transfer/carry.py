"""Carries one object from store to store: what is fetched is judged by the listing before it is stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, TypeAlias

from aiozarr.engine import Engine
from aiozarr.errors import ChangedError, ShortReadError, StoreError
from aiozarr.model import Entry, Range
from aiozarr.schedule.events import Report, Totals
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, Store
from aiozarr.transfer.deliver import Deliverer, equal_bytes
from aiozarr.transfer.fetch import Fetcher
from aiozarr.transfer.gate import ByteGate
from aiozarr.transfer.judge import Taken, Verdict, judge

Verify: TypeAlias = Literal["size", "checksum"] | None

TRIES = 4
"""How often an object that does not hold still is fetched before that is an error."""

FIRST_WAIT = 0.05
"""Seconds; doubled for each further try."""

LEAST_WEIGHT = 16 << 10
"""What opening, renaming and closing a file costs beside its bytes, in bytes."""


@dataclass(frozen=True, slots=True)
class Carried:
    """An object that was stored: its bytes, and whether it is a later one than was listed."""

    size: int
    changed: bool = False


class Carrier:
    """Carries the objects of one copy."""

    def __init__(
        self, engine: Engine, source: Store, destination: Store, *, verify: Verify, settings: Settings, recorder: Report
    ) -> None:
        self.source = source
        self.destination = destination
        self._verify = verify
        self._part = settings.max_request_bytes
        self._watched = settings.on_event is not None
        self._desk = engine.desk
        self._pool = engine.desk.pool
        self._recorder = recorder
        self._from = Fetcher(engine.session(source, settings, recorder), self._pool, self._part)
        to_session = engine.session(destination, settings, recorder)
        self._to = Deliverer(to_session, self._pool, self._part, read_back=verify == "checksum")
        self._gate = ByteGate(settings.max_bytes_in_flight)

    async def carry(self, entry: Entry) -> Carried | None:
        """Copy one object; None for a folder marker.

        Raises:
            ChangedError: it is gone, or was replaced again and again while it was fetched.
            ShortReadError: the source gives another number of bytes than it lists.
            ChecksumError: what was read back is not what was stored.
            StoreError: a store failed.
        """
        source, destination, size = self.source, self.destination, entry.size
        if (
            isinstance(source, BlockingStore)
            and isinstance(destination, BlockingStore)
            and size is not None
            and size <= self._part
            and not self._watched  # each request is told of
            and await self._in_one_hop(source, destination, entry, size)
        ):
            return Carried(size)
        return await self._in_steps(entry)

    # --- between blocking stores: the ordinary case in one hop to a thread ---------------------------------------

    async def _in_one_hop(self, source: BlockingStore, destination: BlockingStore, entry: Entry, size: int) -> bool:
        """Copy an object that is as it was listed; False where anything about it asks for a closer look."""
        sent = 0

        def carry() -> bool:
            nonlocal sent
            sent += 1
            value = source.fetch_now(entry.key, Range(0, self._part))
            if value is None:
                return False
            taken = Taken(value.data, size if value.size is None else value.size, value.version)
            if judge(entry, taken, seen=None, strict=True) is not Verdict.AS_LISTED:
                return False
            sent += 1
            destination.set_now(entry.key, value.data)
            if self._verify != "checksum":
                return True
            sent += 1
            back = destination.fetch_now(entry.key)
            return back is not None and equal_bytes(back.data, value.data)

        async with self._gate.hold(self._weight(size)):
            try:
                return await self._pool.call(carry, max(size, LEAST_WEIGHT))
            except StoreError as error:
                if not error.retryable:
                    raise
                return False
            finally:
                if sent > 1:
                    self._desk.changed(destination, entry.key)
                moved = size if sent > 1 else 0
                self._recorder.add(source.url, Totals(requests=min(1, sent), bytes_wanted=moved, bytes_fetched=moved))
                self._recorder.add(destination.url, Totals(requests=max(0, sent - 1), bytes_written=moved))

    # --- between any stores --------------------------------------------------------------------------------------

    async def _in_steps(self, entry: Entry) -> Carried | None:
        key = entry.key
        room = self._part if entry.size is None else entry.size
        seen: int | None = None
        for tries in range(TRIES):
            if tries:
                await asyncio.sleep(FIRST_WAIT * 2**tries)
            async with self._gate.hold(self._weight(room)):
                try:
                    taken = await self._from.fetch(key, room)
                except ChangedError:
                    continue
                if taken is None:
                    if entry.size == 0:
                        # Some clients list the marker `a/` of a folder as an empty object `a`.
                        return None
                    raise ChangedError("the object was listed, and is gone", store=self.source.url, key=key)
                if isinstance(taken, int):
                    # It is larger now than the room that was made for it.
                    room = taken
                    continue
                verdict = judge(entry, taken, seen=seen, strict=self._verify is not None)
                if verdict is Verdict.AGAIN:
                    seen = taken.size
                    continue
                await self._to.deliver(key, taken.data)
                return Carried(taken.size, changed=verdict is Verdict.REPLACED)
        raise self._restless(entry, seen)

    def _restless(self, entry: Entry, seen: int | None) -> StoreError:
        place = {"store": self.source.url, "key": entry.key, "attempts": TRIES}
        if seen is None:
            return ChangedError("the object was replaced each time it was fetched", **place)
        return ShortReadError(
            f"the object has {entry.size} bytes by the listing, {seen} by its answers, or answers are cut short",
            retryable=False,
            **place,
        )

    def _weight(self, size: int) -> int:
        """Return the bytes that an object of `size` holds in memory on its way."""
        return size + min(size, self._part) if self._verify == "checksum" else size
