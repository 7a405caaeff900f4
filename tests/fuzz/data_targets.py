"""Bytes of chunks, shards, archives and cache files: right values or a typed error."""

from __future__ import annotations

import itertools
import json
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c

import aiozarr
from aiozarr.stores import CacheStore, MemoryStore, Range, Store, Suffix, ZipStore
from tests.fuzz.behind_open import (
    SETTINGS,
    SealedStore,
    change_array,
    documents_in,
    filled,
    look_at_array,
    open_and_use,
)
from tests.fuzz.document_targets import NAMES, committed, stored
from tests.fuzz.mutate import changed_values, mutated_bytes
from tests.fuzz.target import Target
from tests.fuzz.watchdog import allowed
from tests.support.interop_cases import all_cases
from tests.support.remote_arrays import CHECKED, RAW, document
from tests.support.zip_archives import archive_of, streamed_archive


class Chunks(Target):
    """Chunks of every data type and codec, behind the honest document."""

    name = "chunks"
    quick = 60

    async def prepare(self) -> None:
        self._cases = {case.name: case for case in all_cases()}
        self._made: dict[str, dict[str, bytes]] = {}

    def draw(self, rng: Random) -> tuple[str, int]:
        return rng.choice([*self._cases]), rng.getrandbits(32)

    async def run(self, value: tuple[str, int]) -> None:
        # The chunks are made when they are first wanted: to make those of all cases takes seconds.
        name, ways = value
        if name not in self._made:
            self._made[name] = await stored(self._cases[name])
        rng, values = Random(ways), self._made[name]
        chunks = sorted(values.keys() - set(documents_in(values, NAMES)))
        others = [values[key] for key in chunks]
        await open_and_use(changed_values(rng, values, chunks, lambda rng, data: mutated_bytes(rng, data, others)), rng)


EMPTY = 2**64 - 1


class Shards(Target):
    """Shards whose index has a right checksum, and entries that point anywhere."""

    name = "shards"
    quick = 40

    async def prepare(self) -> None:
        pass

    def draw(self, rng: Random) -> tuple[dict[str, bytes], int]:
        count, location = rng.choice([1, 4, 16]), rng.choice(["start", "end"])
        codecs: list[Any] = rng.choice(
            [RAW, CHECKED, [*RAW, {"name": "zstd", "configuration": {"level": 0, "checksum": False}}]]
        )
        described = document([4 * count + rng.choice([0, 3])], [4 * count], inner=[4], codecs=codecs)
        described["codecs"][0]["configuration"]["index_location"] = location
        if rng.randrange(4) == 0:
            described = _nested(described, count)
        data = rng.randbytes(rng.choice([0, 16 * count, 16 * count, 20 * count]))
        start = 0 if location == "end" else 16 * count + 4
        entries = [(start + 16 * number, 16) for number in range(count)]
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            entries[rng.randrange(count)] = _entry(rng, rng.choice(entries), start, len(data))
        index = b"".join(struct.pack("<QQ", *entry) for entry in entries)
        index += struct.pack("<I", google_crc32c.value(index))
        if rng.randrange(10) == 0:
            index = mutated_bytes(rng, index)
        shard = data + index if location == "end" else index + data
        if rng.randrange(10) == 0:
            shard = mutated_bytes(rng, shard)
        return {"zarr.json": json.dumps(described).encode(), "c/0": shard}, rng.getrandbits(32)

    async def run(self, value: tuple[dict[str, bytes], int]) -> None:
        values, ways = value
        rng = Random(ways)
        array = await aiozarr.open_array(SealedStore(values), settings=SETTINGS)
        await look_at_array(array, rng)
        strict = await aiozarr.open_array(filled(values), settings=aiozarr.Settings(strict=True))
        await allowed(strict[1:9].read())
        if rng.randrange(2):
            writable = await aiozarr.open_array(filled(values), mode="r+", settings=SETTINGS)
            await allowed(writable[1:6].write(7))
            await change_array(writable)


def _entry(rng: Random, entry: tuple[int, int], start: int, size: int) -> tuple[int, int]:
    """Return an entry of a shard index that is wrong, or only unusual."""
    offset, length = entry
    edges = [0, 1, start, size, start + size, 2**31, 2**32, 2**62, 2**63, EMPTY - 16, EMPTY - 1, EMPTY]
    match rng.randrange(6):
        case 0:
            return rng.choice(edges), rng.choice(edges)
        case 1:
            return rng.choice(edges), length
        case 2:
            return offset, rng.choice(edges)
        case 3:
            return (offset + rng.randrange(-20, 20)) & EMPTY, (length + rng.randrange(-3, 4)) & EMPTY
        case 4:
            return EMPTY, EMPTY
        case _:
            return entry


def _nested(described: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the document with another level of shards inside; the bytes of the inner ones are no shards."""
    configuration = described["codecs"][0]["configuration"]
    inner = {"chunk_shape": [2], "codecs": configuration["codecs"], "index_codecs": CHECKED, "index_location": "end"}
    codecs = [{"name": "sharding_indexed", "configuration": inner}]
    outer = {**configuration, "codecs": codecs}
    return {**described, "codecs": [{"name": "sharding_indexed", "configuration": outer}]}


class Archives(Target):
    """Zip archives, on disk and in a store: each value is an original one, or a typed error."""

    name = "zip"
    quick = 120

    async def prepare(self) -> None:
        values = {"zarr.json": json.dumps(document()).encode(), "c/0": bytes(12), "c/1": b"", "a/b": b"ab" * 300}
        stores = [values, committed()[0], committed()[-1]]
        methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]
        self._archives = [archive_of(each, method) for each in stores for method in methods]
        self._archives += [streamed_archive(values, method) for method in methods]
        self._archives.append(archive_of(values, zipfile.ZIP_BZIP2))  # listed, and refused when it is read
        self._known = {b"", *(data for each in stores for data in each.values())}
        self._folder = Path(self.resources.enter_context(tempfile.TemporaryDirectory()))
        self._numbers = itertools.count()

    def draw(self, rng: Random) -> tuple[bytes, int]:
        data = rng.choice(self._archives)
        others = rng.choices(self._archives, k=2)
        if rng.randrange(3) == 0:
            return mutated_bytes(rng, data, others), rng.getrandbits(32)
        # Most of an archive is values, whose checksum shows every change: aim at the records.
        marks = [
            at for at in range(len(data)) if data.startswith((b"PK\x01\x02", b"PK\x03\x04", b"PK\5\6", b"PK\6"), at)
        ]
        at = rng.choice(marks)
        record = mutated_bytes(rng, data[at : at + 60], others)
        return data[:at] + record + data[at + 60 :], rng.getrandbits(32)

    async def run(self, value: tuple[bytes, int]) -> None:
        data, ways = value
        path = self._folder / f"{next(self._numbers)}.zip"
        path.write_bytes(data)
        inner = MemoryStore()
        await inner.set("x.zip", data)
        found = [await self._values(ZipStore(path)), await self._values(ZipStore(inner, key="x.zip"))]
        for values in found:
            assert all(value in self._known for value in values.values()), "a value that was never stored"
        both = found[0].keys() & found[1].keys()
        assert {key: found[0][key] for key in both} == {key: found[1][key] for key in both}
        if ways % 4 == 0:
            await allowed(aiozarr.open(path, settings=SETTINGS))
        if ways % 4 == 1:
            async with ZipStore(path, "a") as store:
                await allowed(store.set("new", b"new"))
        path.unlink()

    async def _values(self, store: Store) -> dict[str, bytes]:
        values: dict[str, bytes] = {}
        keys = await allowed(store.list())
        for key in keys if isinstance(keys, list) else ["zarr.json", "c/0"]:
            got = await allowed(store.get(key))
            if got is not None and not isinstance(got, BaseException):
                values[key] = bytes(got)
                await allowed(store.fetch(key, Range(1, 3)))
        await allowed(store.aclose())
        return values


VICTIM = b"no file of the cache"


class CacheFiles(Target):
    """Files of a cache directory: damaged, exchanged, or replaced by links; what is read is the store's value."""

    name = "cache"
    quick = 25

    async def prepare(self) -> None:
        self._values = {f"k/{number}": bytes([number]) * (number * 700) for number in range(4)}
        # Files of the cache name their store: one without a name has another one in each process.
        self._origin = MemoryStore.named("fuzz-cache")
        for key, data in self._values.items():
            await self._origin.set(key, data)
        with tempfile.TemporaryDirectory() as folder:
            await self._read(folder, Random(0))
            self._files = _files_in(Path(folder))

    def draw(self, rng: Random) -> tuple[dict[str, bytes], str | None, int]:
        changed = changed_values(rng, self._files, self._files, mutated_bytes)
        return changed, rng.choice([None, None, *self._files]), rng.getrandbits(32)

    async def run(self, value: tuple[dict[str, bytes], str | None, int]) -> None:
        files, linked, ways = value
        with tempfile.TemporaryDirectory() as name:
            _write_files(Path(name), files, linked)
            await self._read(f"{name}/cache", Random(ways))
            assert _files_in(Path(name))["victim"] == VICTIM

    async def _read(self, folder: str, rng: Random) -> None:
        store = CacheStore(self._origin, max_bytes=rng.choice([1500, 1 << 20]), directory=folder)
        for key, data in self._values.items():
            for byte_range, expected in ((None, data), (Range(5, 100), data[5:105]), (Suffix(9), data[-9:])):
                got = await store.fetch(key, byte_range)
                assert got is not None
                assert bytes(got.data) == expected, f"{key} {byte_range} of the cache is not the store's"
        await store.aclose()


def _files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _write_files(folder: Path, files: Mapping[str, bytes], linked: str | None) -> None:
    """Make a cache directory of files, one of them a link to a file beside the directory."""
    (folder / "victim").write_bytes(VICTIM)
    (folder / "cache").mkdir(0o700)
    for key, data in files.items():
        path = folder / "cache" / key
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        if key == linked:
            path.symlink_to(folder / "victim")
        else:
            path.write_bytes(data)
