"""A tile service without xarray: `TILES_URL=pyramid.zarr uvicorn app:app`, and a map at http://127.0.0.1:8000.

Each tile is one awaited read. A request has a deadline, and a client that leaves cancels its read. Decoded chunks are
cached.
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
import zlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, JSONResponse

import aiozarr

T = TypeVar("T")

URL = os.environ.get("TILES_URL", "pyramid.zarr")
DEADLINE_SECONDS = float(os.environ.get("TILES_DEADLINE", "5"))
SETTINGS = aiozarr.Settings(chunk_cache_bytes=256 << 20)
HEADERS = {"Cache-Control": "public, max-age=3600"}

log = logging.getLogger("tiles")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.counts = {"tiles": 0, "cancelled": 0, "late": 0}
    async with aiozarr.open_group(URL, settings=SETTINGS) as group:
        app.state.tile = group.attrs["tile"]
        names = [str(level) for level in range(group.attrs["levels"])]
        app.state.levels = await asyncio.gather(*[group.open(name) for name in names])
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def page() -> FileResponse:
    return FileResponse(Path(__file__).with_name("map.html"))


@app.get("/stats")
async def stats() -> JSONResponse:
    return JSONResponse(app.state.counts | {"levels": len(app.state.levels), "tile": app.state.tile})


@app.get("/tiles/{z}/{x}/{y}.png")
async def tile(request: Request, z: int, x: int, y: int) -> Response:
    if not (0 <= z < len(app.state.levels) and 0 <= x < 1 << z and 0 <= y < 1 << z):
        raise HTTPException(404, "this tile does not exist")
    size, counts = app.state.tile, app.state.counts
    view = app.state.levels[z][y * size : (y + 1) * size, x * size : (x + 1) * size]
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            values = await unless_gone(request, view.read())
    except TimeoutError as error:
        counts["late"] += 1
        raise HTTPException(504, "the store did not respond in time") from error
    if values is None:
        counts["cancelled"] += 1
        return Response(status_code=499)  # nobody reads it
    counts["tiles"] += 1
    # In a thread: compression takes milliseconds.
    return Response(await asyncio.to_thread(png, values), media_type="image/png", headers=HEADERS)


@app.exception_handler(aiozarr.AiozarrError)
async def store_failed(request: Request, error: aiozarr.AiozarrError) -> JSONResponse:
    # The client gets the class alone, because the message names keys and buckets.
    log.error("%s failed", request.url.path, exc_info=error)
    status = 503 if isinstance(error, aiozarr.ThrottledError) else 502
    return JSONResponse({"error": type(error).__name__}, status)


async def unless_gone(request: Request, coroutine: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `coroutine`, or None, after cancelling it, if the client has left."""
    work = asyncio.ensure_future(coroutine)
    gone = asyncio.ensure_future(left(request))
    try:
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else None
    finally:
        gone.cancel()
        if not work.done():
            # Awaited: after the cancellation of a read nothing is in flight any more.
            work.cancel()
            await asyncio.wait([work])


async def left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def png(values: np.ndarray) -> bytes:
    """Return a PNG of values between 0 and 255, in colours (PNG specification, sections 5 and 11)."""
    height, width = values.shape
    rows = np.zeros((height, width + 1), "u1")  # each row begins with its filter: none
    rows[:, 1:] = values
    ramp = np.arange(256)
    palette = np.stack([ramp, (ramp * ramp) // 255, 96 + 159 * np.sin(ramp * np.pi / 255)], 1).astype("u1")
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(rows, 3)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
