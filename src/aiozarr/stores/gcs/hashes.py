"""CRC32C, which GCS stores for every object: computed for uploads, compared for downloads."""

from __future__ import annotations

import re

from typing_extensions import Buffer

from aiozarr.errors import StoreError
from aiozarr.http1 import Headers
from aiozarr.http1.head import HASH_HEADER
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.object.bucket_client import crc32c_base64

MAX_HASH_ON_LOOP_BYTES = 1 << 20
"""Longer values are hashed in a thread: this much takes 0.1 ms."""

_CRC32C = re.compile(rb"(?:^|,)\s*crc32c=([A-Za-z0-9+/]{6}==)")


async def crc32c_of(data: Buffer) -> bytes:
    """Return the CRC32C of `data` as GCS writes it: big-endian, in base64."""
    view = memoryview(data)
    if view.nbytes <= MAX_HASH_ON_LOOP_BYTES:
        return crc32c_base64(view)
    return await in_thread(lambda: crc32c_base64(view))


def matches_checksum(body: Buffer, headers: Headers) -> bool:
    """Return whether a whole object has the CRC32C of the response, or the response contains none. It blocks."""
    stored = _CRC32C.search(headers.get(HASH_HEADER, b""))
    return stored is None or crc32c_base64(memoryview(body)) == stored[1]


async def verify_checksum(body: Buffer, headers: Headers) -> None:
    """Check that a whole object has the CRC32C of the response, if the response contains one.

    Raises:
        StoreError: it has another one; retryable.
    """
    stored = _CRC32C.search(headers.get(HASH_HEADER, b""))
    if stored is not None and await crc32c_of(body) != stored[1]:
        raise StoreError("the received bytes do not have the CRC32C that the server reports", retryable=True)
