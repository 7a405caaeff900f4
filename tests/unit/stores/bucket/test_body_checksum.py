"""A body is compared with the checksum of its response, by every algorithm that is installed."""

from __future__ import annotations

import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from types import ModuleType

import pytest
from typing_extensions import Buffer

from aiozarr.errors import StoreError
from aiozarr.stores.bucket.bucket_client import (
    ALGORITHMS,
    MAX_HASH_ON_LOOP_BYTES,
    MAX_SHA_ON_LOOP_BYTES,
    BodyChecksum,
    _find_crc64nvme,
    checksum_of,
)

# The check values of the catalogue of CRCs, and FIPS 180, for these nine bytes.
NINE = b"123456789"
VALUES = {
    "CRC32": "cbf43926",
    "CRC32C": "e3069283",
    "CRC64NVME": "ae8b14860a799888",
    "SHA1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "SHA256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}


def crc64nvme(data: Buffer) -> int:
    crc = (1 << 64) - 1
    for byte in bytes(data):
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x9A6C9329AC4BC9B5 if crc & 1 else 0)
    return crc ^ (1 << 64) - 1


@pytest.fixture(params=[True, False])
def has_awscrt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Play awscrt, which is too large to install for one function, or its absence."""
    module = ModuleType("awscrt.checksums")
    module.crc64nvme = crc64nvme  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "awscrt", ModuleType("awscrt"))
    monkeypatch.setitem(sys.modules, "awscrt.checksums", module if request.param else None)
    _find_crc64nvme.cache_clear()
    yield request.param
    _find_crc64nvme.cache_clear()


def checksum(name: str) -> BodyChecksum:
    return BodyChecksum(name, b64encode(bytes.fromhex(VALUES[name])))


@pytest.mark.parametrize("name", VALUES)
async def test_a_body_has_its_checksum_and_no_other_body_has_it(name: str, *, has_awscrt: bool) -> None:
    assert VALUES.keys() == ALGORITHMS.keys()
    for body in (NINE, memoryview(bytearray(NINE))):
        await checksum(name).verify(body)
    if name == "CRC64NVME" and not has_awscrt:
        await checksum(name).verify(NINE[:-1])  # nothing else that is installed computes it
        return
    with pytest.raises(StoreError, match=f"do not have the {name} that") as raised:
        await checksum(name).verify(NINE[:-1])
    assert raised.value.retryable


@pytest.mark.parametrize(("name", "nbytes"), [("CRC32C", MAX_HASH_ON_LOOP_BYTES), ("SHA256", MAX_SHA_ON_LOOP_BYTES)])
async def test_long_bodies_are_hashed_in_a_thread(name: str, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    monkeypatch.setitem(ALGORITHMS, name, lambda: lambda view: threads.append(threading.get_ident()) or b"")
    await BodyChecksum(name, b"").verify(bytes(nbytes))
    await BodyChecksum(name, b"").verify(bytes(nbytes + 1))
    assert [each == threading.get_ident() for each in threads] == [True, False]


async def test_much_data_has_the_crc32c_of_all_its_bytes() -> None:
    data = bytes(MAX_HASH_ON_LOOP_BYTES) + NINE
    assert await checksum_of("CRC32C", bytearray(data)) == await checksum_of("CRC32C", data)
