"""CRC32C, which GCS keeps for every object: made for what is sent, compared for what is received."""

from __future__ import annotations

import re

from typing_extensions import Buffer

from aiozarr.errors import StoreError
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.lane.head import HASHES, Headers
from aiozarr.stores.object.checksum import crc32c_text

ASIDE_BYTES = 1 << 20
"""Longer values are hashed in a thread: this much takes a tenth of a millisecond."""

_CRC32C = re.compile(rb"(?:^|,)\s*crc32c=([A-Za-z0-9+/]{6}==)")


async def crc32c_of(data: Buffer) -> bytes:
    """Return the CRC32C of `data`, big-endian, in base64, as GCS writes it."""
    view = memoryview(data)
    if view.nbytes <= ASIDE_BYTES:
        return crc32c_text(view)
    return await in_thread(lambda: crc32c_text(view))


async def verify(body: Buffer, headers: Headers) -> None:
    """See that a whole object is what the server says it stores; one that tells no CRC32C is taken at its word.

    Raises:
        StoreError: it is not; another try may bring the right bytes.
    """
    told = _CRC32C.search(headers.get(HASHES, b""))
    if told is not None and await crc32c_of(body) != told[1]:
        raise StoreError("the bytes that came do not have the CRC32C that the server tells", retryable=True)
