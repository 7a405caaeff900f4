"""Archives for the tests of zip stores, and a store that records the fetched ranges."""

from __future__ import annotations

import asyncio
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
