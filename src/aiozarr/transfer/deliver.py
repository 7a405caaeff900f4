"""Stores one object whole, and reads it back where that is asked for."""

from __future__ import annotations

from functools import partial

import numpy as np
from typing_extensions import Buffer

from aiozarr.engine import Session, WorkerPool
from aiozarr.errors import ChecksumError
from aiozarr.model import Range
from aiozarr.stores import byte_view


class Deliverer:
    """Stores objects in one store; `part` is the most bytes of one request that reads back."""

    def __init__(self, session: Session, pool: WorkerPool, part: int, *, read_back: bool) -> None:
        self._session = session
        self._pool = pool
        self._part = part
        self._read_back = read_back

    async def deliver(self, key: str, data: Buffer) -> None:
        """Store `data`.

        Raises:
            ChecksumError: what was read back is something else.
            StoreError: it could not be stored, or not be read back.
        """
        await self._session.set(key, data)
        if not self._read_back or await self._holds(key, byte_view(data)):
            return
        # Once more: what was damaged on its way may arrive the second time.
        await self._session.set(key, data)
        if not await self._holds(key, byte_view(data)):
            raise ChecksumError("what was read back is not what was stored", store=self._session.store.url, key=key)

    async def _holds(self, key: str, data: memoryview) -> bool:
        """Return whether the store gives back `data`; a large object is asked for in parts, one after the other."""
        if data.nbytes <= self._part or not self._session.store.supports.partial_reads:
            return await self._gives(key, None, data, data.nbytes)
        for start in range(0, data.nbytes, self._part):
            part = data[start : start + self._part]
            if not await self._gives(key, Range(start, part.nbytes), part, data.nbytes):
                return False
        return True

    async def _gives(self, key: str, byte_range: Range | None, wanted: memoryview, size: int) -> bool:
        value = await self._session.fetch(key, byte_range, cost=wanted.nbytes)
        if value is None or value.size not in (None, size):
            return False
        return await self._pool.call(partial(equal_bytes, wanted, value.data), wanted.nbytes)


def equal_bytes(one: Buffer, other: Buffer) -> bool:
    """Return whether two buffers hold the same bytes."""
    # memoryviews compare byte by byte, as Python objects; numpy compares memory.
    return bool(np.array_equal(np.frombuffer(byte_view(one), np.uint8), np.frombuffer(byte_view(other), np.uint8)))
