"""Small arrays in fake stores, and engines without threads, for tests of the engine."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.engine import ArrayLayout, Engine, InlinePool, Read, Write
from aiozarr.grid.transform import IndexTransform
from aiozarr.metadata.formats import parse_node
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store
from aiozarr.testing.fakes import FakeStore

SETTINGS = Settings(max_requests=64, merge_gap_bytes=0)
RAW = [{"name": "bytes", "configuration": {"endian": "little"}}]


def engine() -> Engine:
    """An engine on the running loop that decodes at once, without threads."""
    return Engine(asyncio.get_running_loop(), InlinePool())


def layout_of(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    *,
    inner: tuple[int, ...] | None = None,
    codecs: list[dict[str, Any]] | None = None,
    dtype: str = "int32",
    fill_value: Any = 0,
) -> ArrayLayout:
    """The layout of an array whose metadata is written out here."""
    chain = codecs or RAW
    if inner is not None:
        configuration = {
            "chunk_shape": list(inner),
            "codecs": chain,
            "index_codecs": [*RAW, {"name": "crc32c"}],
            "index_location": "end",
        }
        chain = [{"name": "sharding_indexed", "configuration": configuration}]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": fill_value,
        "codecs": chain,
    }
    metadata = parse_node({"zarr.json": json.dumps(document).encode()}, node="test", settings=SETTINGS)
    assert isinstance(metadata, ArrayMetadata)
    return ArrayLayout.resolve(metadata, node="test", settings=SETTINGS)


@dataclass
class Sample:
    """An array with the values 1, 2, 3, ... in a store."""

    layout: ArrayLayout
    store: Store
    values: NDArray[Any] = field(init=False)

    def __post_init__(self) -> None:
        shape = self.layout.metadata.shape
        self.values = np.arange(1, prod(shape) + 1, dtype=self.layout.spec.dtype).reshape(shape)

    def read(self, *selection: Any) -> Read:
        """A read of `values[selection]` into new memory."""
        transform = IndexTransform.identity(self.layout.metadata.shape).select(selection)
        out = np.full(transform.core_shape, -1, self.layout.spec.dtype)
        return Read(self.layout, self.store, "a/", transform.maps, out)

    def write(self, values: Any, *selection: Any) -> Write:
        """A write to `array[selection]`."""
        transform = IndexTransform.identity(self.layout.metadata.shape).select(selection)
        return Write(self.layout, self.store, "a/", transform.maps, np.asarray(values))


async def sample(
    shape: tuple[int, ...], chunks: tuple[int, ...], *, latency: float = 0.01, **layout: Any
) -> tuple[Sample, FakeStore, Engine]:
    """A stored array, its store with the calls of the writing forgotten, and a fresh engine."""
    store = FakeStore(latency=0)
    stored = Sample(layout_of(shape, chunks, **layout), store)
    await engine().write(stored.write(stored.values), settings=SETTINGS)
    store.reset()
    store.latency = latency
    return stored, store, engine()


async def read_all(reader: Engine, array: Sample) -> NDArray[Any]:
    """Return the stored values of all elements of `array`."""
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    return read.out


async def read_window(
    reader: Engine, array: Sample, *selection: Any, settings: Settings = SETTINGS, **more: Any
) -> NDArray[Any]:
    """Read `array[selection]`, assert that the values are right, and return them."""
    read = array.read(*selection)
    await reader.read([read], settings=settings, **more)
    assert np.array_equal(read.out, array.values[selection])
    return read.out


async def pass_turns(count: int) -> None:
    """Return after some turns of the loop; in the first few of them requests are cut and sent."""
    for _ in range(count):
        await asyncio.sleep(0)
