"""Write the store that the tile service shows: a picture in levels, each twice as fine as the one before.

python make_store.py pyramid.zarr
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np

import aiozarr

TILE = 256
LEVELS = 5
STEPS = 40
HALF_METRES = 20037508.342789244
"""Half the side of the square that web maps show. The picture covers all of it."""


def georeference(size: int) -> dict[str, Any]:
    """Return the attributes that place a square of pixels on a web map, by the conventions `proj` and `spatial`."""
    pixel = 2 * HALF_METRES / size
    return {
        "zarr_conventions": [
            {"name": "proj:", "uuid": "f17cb550-5864-4468-aeb7-f3180cfb622f"},
            {"name": "spatial:", "uuid": "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"},
        ],
        "proj:code": "EPSG:3857",
        "spatial:dimensions": ["y", "x"],
        "spatial:transform": [pixel, 0.0, -HALF_METRES, 0.0, -pixel, HALF_METRES],
    }


def picture(level: int) -> np.ndarray:
    """Return the values of one level: a Julia set, between 0 and 255."""
    size = TILE << level
    axis = np.linspace(-1.6, 1.6, size, dtype="f4")
    z = axis[None, :] + 1j * axis[:, None]
    steps = np.zeros(z.shape, "u1")
    for _ in range(STEPS):
        inside = np.abs(z) < 2
        z = np.where(inside, z * z - 0.7269 + 0.1889j, z)
        steps += inside
    # The square root shows the few steps outside of the set too.
    return (np.sqrt(np.arange(STEPS + 1) / STEPS) * 255).astype("u1")[steps]


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
                attributes=georeference(TILE << level),
            )
    # All levels are then known after one request.
    await aiozarr.consolidate_metadata(url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
