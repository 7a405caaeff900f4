"""The arrays of the benchmarks: shapes that follow from sizes in bytes, and values that compress as measurements do.

Peers' environments import this, so it needs numpy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KIB = 1 << 10
MIB = 1 << 20
ITEM = 4
"""Bytes of an element: all arrays are float32."""

CODECS = ("zstd", "blosc", "gzip", "raw")
SLAB = 32 * MIB
NOISE = 1_048_573
"""Elements of noise before it begins again: a prime, so that no chunk sees the beginning where another does."""


@dataclass(frozen=True)
class Layout:
    """One stored array. Sizes in bytes, decoded; all are powers of two.

    Attributes:
        nbytes: of the array.
        chunk: of the smallest unit that can be read.
        shard: of a stored object, where it holds many chunks; 0: there are no shards.
        codec: one of `CODECS`.
        zarr_format: 2 or 3.
    """

    nbytes: int
    chunk: int
    shard: int = 0
    codec: str = "zstd"
    zarr_format: int = 3

    def __post_init__(self) -> None:
        for size in (self.nbytes, self.chunk, self.shard or self.chunk):
            if size < ITEM or size & (size - 1):
                raise ValueError(f"{size} bytes: sizes are powers of two, from {ITEM} on")
        if not self.chunk <= (self.shard or self.chunk) <= self.nbytes:
            raise ValueError("a chunk is no larger than a shard, and a shard no larger than the array")
        if self.codec not in CODECS:
            raise ValueError(f"a codec is one of {', '.join(CODECS)}, not {self.codec!r}")
        if self.zarr_format not in (2, 3) or (self.zarr_format == 2 and self.shard):
            raise ValueError("the format is 2 or 3, and format 2 has no shards")

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape, in elements."""
        return block(self.nbytes)

    @property
    def chunks(self) -> tuple[int, ...]:
        """A chunk's shape."""
        return block(self.chunk)

    @property
    def shards(self) -> tuple[int, ...] | None:
        """A shard's shape."""
        return block(self.shard) if self.shard else None

    @property
    def name(self) -> str:
        """Names the array among others."""
        parts = [said(self.nbytes), said(self.chunk), *([f"in-{said(self.shard)}"] if self.shard else [])]
        return "-".join([*parts, self.codec, f"v{self.zarr_format}"])


def block(nbytes: int) -> tuple[int, ...]:
    """Return the shape in three dimensions, as near to a cube as powers of two go, of `nbytes` of float32.

    Of two sizes, the shape of the smaller divides that of the larger.
    """
    exponent = (nbytes // ITEM).bit_length() - 1
    return tuple([1 << (exponent + 2 - dimension) // 3 for dimension in range(3)])


def said(nbytes: int) -> str:
    """Return a size in words: `512KiB`."""
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit and nbytes % unit == 0:
            return f"{nbytes // unit}{name}"
    return f"{nbytes}B"


def size_of(text: str) -> int:
    """Return the bytes that `said` has put in words.

    Raises:
        ValueError: it is no size.
    """
    units = {"KIB": KIB, "MIB": MIB, "GIB": 1 << 30, "B": 1}
    upper = text.strip().upper()
    for name, unit in units.items():
        if upper.endswith(name):
            return int(upper.removesuffix(name)) * unit
    return int(upper)


def values(shape: tuple[int, ...], start: int, stop: int) -> NDArray[Any]:
    """Return planes `start` to `stop` of the field that every array of `shape` holds: waves, and noise of 2 %.

    It has the resolution of an instrument, 1/256, and so compresses to about half.
    """
    axes = [np.linspace(0, 2 * np.pi, length, dtype=np.float32) for length in shape]
    waves = np.sin(axes[0][start:stop, None, None]) + np.cos(2 * axes[1][:, None]) + np.sin(3 * axes[2])
    table = np.random.default_rng(1).normal(0, 0.02, NOISE).astype(np.float32)
    first = start * shape[1] * shape[2] % NOISE
    noise = np.resize(np.roll(table, -first), waves.shape)
    field: NDArray[Any] = np.rint((waves + noise) * 256) / np.float32(256)
    return field.astype(np.float32)


def slabs(layout: Layout) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the whole field in parts that begin and end where stored objects do."""
    shape = layout.shape
    deep = (layout.shards or layout.chunks)[0]
    planes = max(1, SLAB // (ITEM * shape[1] * shape[2]) // deep) * deep
    for start in range(0, shape[0], planes):
        stop = min(start + planes, shape[0])
        yield slice(start, stop), values(shape, start, stop)


def whole(layout: Layout) -> NDArray[Any]:
    """Return the whole field."""
    result = np.empty(layout.shape, np.float32)
    for place, slab in slabs(layout):
        result[place] = slab
    return result
