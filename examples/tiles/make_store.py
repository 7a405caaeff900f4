"""Writes the store that the tile service shows: a picture in levels, each twice as fine as the one before.

python make_store.py pyramid.zarr
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

import aiozarr

TILE = 256
LEVELS = 5


def picture(level: int) -> np.ndarray:
    """Return the values of one level: a Julia set, between 0 and 255."""
    size = TILE << level
    axis = np.linspace(-1.6, 1.6, size, dtype="f4")
    z = axis[None, :] + 1j * axis[:, None]
    steps = np.zeros(z.shape, "u1")
    for _ in range(40):
        inside = np.abs(z) < 2
        z = np.where(inside, z * z - 0.7269 + 0.1889j, z)
        steps += inside.astype("u1") * 6
    return steps


async def main(url: str, levels: int = LEVELS) -> None:
    async with aiozarr.create_group(url, attributes={"tile": TILE, "levels": levels}, overwrite=True) as group:
        for level in range(levels):
            shard = TILE * min(4, 1 << level)
            await group.create_array(
                str(level),
                data=picture(level),
                chunks=(TILE, TILE),
                shards=(shard, shard),
                codecs=["zstd"],
                dimension_names=["y", "x"],
            )
    # All levels are then known after one request.
    await aiozarr.consolidate_metadata(url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
