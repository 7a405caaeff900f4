"""The checksum of a whole object that a response contains, and its comparison with the body that was received."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from typing_extensions import Buffer

from aiozarr.errors import StoreError
from aiozarr.stores.blocking import in_thread

HASHED_BYTES = 1 << 20
"""Bytes that are copied at once for a library that accepts only `bytes`."""

MAX_HASH_ON_LOOP_BYTES = 1 << 20
"""Longer bodies are hashed in a thread: the CRC of this much takes 0.1 ms."""

MAX_SHA_ON_LOOP_BYTES = 1 << 17
"""As `MAX_HASH_ON_LOOP_BYTES`, for SHA-1 and SHA-256."""


class BodyChecksum(NamedTuple):
    """A checksum of a whole object: the name of its algorithm, in `ALGORITHMS`, and its value in base64."""

    algorithm: str
    value: bytes

    def is_quick(self, nbytes: int) -> bool:
        """Return whether a body of this size is hashed on the loop."""
        return nbytes <= (MAX_SHA_ON_LOOP_BYTES if self.algorithm.startswith("SHA") else MAX_HASH_ON_LOOP_BYTES)

    def matches(self, body: Buffer) -> bool:
        """Return whether `body` has this checksum, or nothing that is installed computes it. It blocks."""
        compute = ALGORITHMS[self.algorithm]()
        return compute is None or compute(memoryview(body)) == self.value

    async def verify(self, body: Buffer) -> None:
        """Check that `body` has this checksum; a long one in a thread.

        Raises:
            StoreError: it has another one; retryable.
        """
        quick = self.is_quick(memoryview(body).nbytes)
        if not (self.matches(body) if quick else await in_thread(lambda: self.matches(body))):
            raise StoreError(
                f"the received bytes do not have the {self.algorithm} that the server reports", retryable=True
            )


def crc32c_base64(view: memoryview) -> bytes:
    """Return the CRC32C of contiguous bytes as object stores write it: big-endian, in base64; 0.1 ms for 1 MiB."""
    # Imported on use: a store that is only read needs none.
    import google_crc32c

    # The library accepts bytes and no memoryviews.
    value, whole = 0, view.obj
    if isinstance(whole, bytes) and len(whole) == view.nbytes:
        return base64.b64encode(google_crc32c.value(whole).to_bytes(4, "big"))
    for start in range(0, view.nbytes, HASHED_BYTES):
        value = google_crc32c.extend(value, bytes(view[start : start + HASHED_BYTES]))
    return base64.b64encode(value.to_bytes(4, "big"))


async def crc32c_of(data: Buffer) -> bytes:
    """Return the CRC32C of `data` as object stores write it; that of much data is computed in a thread."""
    return await checksum_of("CRC32C", data)


async def checksum_of(algorithm: str, data: Buffer) -> bytes:
    """Return a checksum of `data` in base64, by an algorithm of `ALGORITHMS` whose package is installed.

    That of much data is computed in a thread.
    """
    view, compute = memoryview(data), ALGORITHMS[algorithm]()
    assert compute is not None
    if BodyChecksum(algorithm, b"").is_quick(view.nbytes):
        return compute(view)
    return await in_thread(lambda: compute(view))


def _crc32_base64(view: memoryview) -> bytes:
    return base64.b64encode(zlib.crc32(view).to_bytes(4, "big"))


def _sha1_base64(view: memoryview) -> bytes:
    return base64.b64encode(hashlib.sha1(view, usedforsecurity=False).digest())


def _sha256_base64(view: memoryview) -> bytes:
    return base64.b64encode(hashlib.sha256(view, usedforsecurity=False).digest())


@lru_cache(maxsize=1)
def _find_crc64nvme() -> Callable[[memoryview], bytes] | None:
    """Return the function of awscrt, if that is installed: it is too large to require it, and Python is too slow."""
    try:
        crc64nvme: Callable[[memoryview], int] = import_module("awscrt.checksums").crc64nvme
    except (ImportError, AttributeError):  # not installed, or a version before it had this checksum
        return None
    return lambda view: base64.b64encode(crc64nvme(view).to_bytes(8, "big"))


ALGORITHMS: dict[str, Callable[[], Callable[[memoryview], bytes] | None]] = {
    "CRC32C": lambda: crc32c_base64,
    "CRC32": lambda: _crc32_base64,
    "CRC64NVME": _find_crc64nvme,
    "SHA1": lambda: _sha1_base64,
    "SHA256": lambda: _sha256_base64,
}
"""The functions that return the function of an algorithm, or None if nothing that is installed computes it."""
