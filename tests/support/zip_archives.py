"""Archives for the tests of zip stores, and a store that records the fetched ranges."""

from __future__ import annotations

import asyncio
import struct
import warnings
import zipfile
from io import BytesIO

from aiozarr.model import ByteRange, Value, Version
from aiozarr.stores import MemoryStore, Store

DATA = bytes(range(256)) * 40


def archive_of(values: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    into = BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(into, "w", compression) as archive:
        warnings.simplefilter("ignore")
        for key, data in values.items():
            archive.writestr(key, data)
    return into.getvalue()


def streamed_archive(values: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive as a writer without seeking makes it: sizes are in descriptors after the data."""

    class OneWay(BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError

        def tell(self) -> int:
            raise OSError

    into = OneWay()
    with zipfile.ZipFile(into, "w", compression) as archive:
        for key, data in values.items():
            archive.writestr(key, data)
    return into.getvalue()


def deflated_archive(packed: bytes, size: int, checksum: int) -> bytes:
    """Return an archive with one member `a`, whose packed bytes are given."""
    sizes = (checksum, len(packed), size, 1, 0)
    body = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, *sizes) + b"a" + packed
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 33, *sizes, 0, 0, 0, 0, 0) + b"a"
    return body + entry + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(body), 0)


class RecordingStore(MemoryStore):
    """Notes the ranges that are fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[ByteRange | None] = []

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        self.fetched.append(range)
        await asyncio.sleep(0)
        return await super().fetch(key, range, if_match=if_match)


async def read(store: Store, key: str, range: ByteRange | None = None) -> bytes:
    value = await store.fetch(key, range)
    assert value is not None
    return bytes(memoryview(value.data))
