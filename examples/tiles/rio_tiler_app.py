"""The tile service with rio-tiler: `TILES_URL=pyramid.zarr uvicorn rio_tiler_app:app`.

http://127.0.0.1:8000/tiles/2/1/1.png

rio-tiler reprojects, resamples and draws, and aiozarr reads: each tile is one awaited read.
"""

from __future__ import annotations

import asyncio

from app import DEADLINE_SECONDS, HEADERS, lifespan, store_failed, unless_gone
from fastapi import FastAPI, HTTPException, Request, Response
from rio_tiler.errors import TileOutsideBounds
from rio_tiler.experimental.zarr import AsyncArrayReader

import aiozarr
from aiozarr.integrations.zarr import AsyncArrayLike

MAX_ZOOM = 22

app = FastAPI(lifespan=lifespan)
app.add_exception_handler(aiozarr.AiozarrError, store_failed)


@app.get("/tiles/{z}/{x}/{y}.png")
async def tile(request: Request, z: int, x: int, y: int) -> Response:
    if not 0 <= z <= MAX_ZOOM:
        raise HTTPException(404, "this tile does not exist")
    # Beyond the finest level, its pixels are enlarged.
    level = app.state.levels[min(z, len(app.state.levels) - 1)]
    # The arrays have attributes of the conventions `spatial` and `proj`; other arrays need `crs=` and `transform=`.
    reader = AsyncArrayReader(AsyncArrayLike(level))
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            image = await unless_gone(request, reader.tile(x, y, z, tilesize=app.state.tile))
    except TileOutsideBounds as error:
        raise HTTPException(404, "this tile does not exist") from error
    except TimeoutError as error:
        raise HTTPException(504, "the store did not respond in time") from error
    if image is None:
        return Response(status_code=499)  # nobody reads it
    return Response(await asyncio.to_thread(image.render, img_format="PNG"), media_type="image/png", headers=HEADERS)
