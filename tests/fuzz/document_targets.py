"""Metadata documents of all formats, and consolidated ones, with everything that follows `open`."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import aiozarr
from aiozarr.stores import MemoryStore
from tests.fuzz.behind_open import documents_in, open_and_use, values_of
from tests.fuzz.mutate import JsonMutator, changed_values, decoded, mutated_bytes
from tests.fuzz.target import Target
from tests.support.consolidated_trees import consolidated_tree
from tests.support.interop_cases import Case, all_cases, contents

DATA = Path(__file__).parents[1] / "data"
NAMES = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta", "attrs")
MAX_DOCUMENT_BYTES = 1 << 16


@cache
def committed() -> list[dict[str, bytes]]:
    """The committed stores of other implementations."""
    entries = json.loads((DATA / "manifest.json").read_text("utf-8"))
    return [
        {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        for root in (DATA / entry["path"] for entry in entries)
    ]


@cache
def fixtures() -> list[dict[str, bytes]]:
    """Documents of the folder that AIOZARR_FIXTURES names, each as a store of its own; a folder has its attributes."""
    folders: dict[str, dict[str, bytes]] = {}
    for path, data in _fixture_files():
        folder, _, name = path.rpartition("/")
        if name in NAMES and len(data) <= MAX_DOCUMENT_BYTES:
            folders.setdefault(folder, {})[name] = data
    unique = {tuple(sorted(values.items())): values for _, values in sorted(folders.items())}
    return list(unique.values())


def _fixture_files() -> Iterator[tuple[str, bytes]]:
    root = os.environ.get("AIOZARR_FIXTURES")
    for path in sorted(Path(root).rglob("*")) if root is not None else ():
        if path.name in NAMES and path.is_file():
            yield path.as_posix(), path.read_bytes()
        elif path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile() and member.size <= MAX_DOCUMENT_BYTES:
                        file = archive.extractfile(member)
                        yield f"{path}/{member.name}", b"" if file is None else file.read()


async def stored(case: Case) -> dict[str, bytes]:
    """Return the objects of an array of a case, as aiozarr writes it."""
    store = MemoryStore()
    await store.set(case.key, json.dumps(case.document).encode())
    array = await aiozarr.open_array(store, mode="r+")
    values = contents(case.kind)
    await array[:4].write(values[:4])
    return await values_of(store)


async def stored_v1(dtype: str, compression: str | None) -> dict[str, bytes]:
    """Return the objects of an array of format 1."""
    store = MemoryStore()
    array = await aiozarr.create_array(
        store, shape=(5, 4), chunks=(2, 3), dtype=dtype, zarr_format=1, compression=compression, attributes={"a": 1}
    )
    await array[...].write(np.arange(20).reshape(5, 4).astype(dtype))
    return await values_of(store)


class Documents(Target):
    """Documents of arrays in formats 1, 2 and 3, beside the chunks that the honest document describes."""

    name = "documents"
    quick = 100

    async def prepare(self) -> None:
        self._cases = all_cases()
        self._by_name = {case.name: case for case in self._cases}
        self._made: dict[str, dict[str, bytes]] = {"": {}}
        self._stores = [*committed(), *fixtures()]
        self._first = [await stored_v1(dtype, name) for dtype in ("<i4", ">f8") for name in (None, "zlib", "blosc")]
        documents = [decoded(json.dumps(case.document)) for case in self._cases]
        for values in [*self._stores, *self._first]:
            documents += [parsed for key in documents_in(values, NAMES) if (parsed := _parsed(values[key])) is not None]
        self._mutator = JsonMutator(documents)

    def draw(self, rng: Random) -> tuple[dict[str, bytes], str, int]:
        kind = rng.randrange(8)
        case = rng.choice(self._cases) if kind < 5 else None
        if case is not None:
            values = {case.key: json.dumps(case.document).encode()}
        else:
            values = rng.choice(self._first if kind == 5 else self._stores)
        return (
            changed_values(rng, values, documents_in(values, NAMES), self._change),
            "" if case is None else case.name,
            rng.getrandbits(32),
        )

    def _change(self, rng: Random, data: bytes) -> bytes:
        parsed = _parsed(data)
        return mutated_bytes(rng, data) if parsed is None else self._mutator.text(rng, parsed)

    async def run(self, value: tuple[dict[str, bytes], str, int]) -> None:
        values, case, ways = value
        await open_and_use({**await self.objects(case), **values}, Random(ways))

    async def objects(self, name: str) -> dict[str, bytes]:
        """Return the objects of a case, which are made once; a committed store has its own."""
        if name and name not in self._made:
            self._made[name] = await stored(self._by_name[name])
        return self._made[name]


class Consolidated(Target):
    """Consolidated metadata of formats 2 and 3, which name nodes that may not exist."""

    name = "consolidated"
    quick = 40

    async def prepare(self) -> None:
        self._stores = []
        for zarr_format in (2, 3):
            store = MemoryStore()
            await consolidated_tree(store, zarr_format)
            self._stores.append(await values_of(store))
        documents = [decoded(values[key]) for values in self._stores for key in documents_in(values, NAMES)]
        self._mutator = JsonMutator(documents)

    def draw(self, rng: Random) -> tuple[dict[str, bytes], int]:
        values = rng.choice(self._stores)
        key = ".zmetadata" if ".zmetadata" in values else "zarr.json"
        keys = [key] if rng.randrange(4) else documents_in(values, NAMES)
        changed = changed_values(rng, values, keys, lambda rng, data: self._mutator.text(rng, decoded(data)))
        return changed, rng.getrandbits(32)

    async def run(self, value: tuple[dict[str, bytes], int]) -> None:
        values, ways = value
        await open_and_use(values, Random(ways), "g/b" if ways % 4 == 0 else "")


def _parsed(data: bytes) -> Any:
    try:
        return decoded(data)
    except (ValueError, RecursionError):
        return None
