"""titiler-xarray on aiozarr: `TILES_URL=weather.zarr uvicorn titiler_app:app`.

http://127.0.0.1:8000/tiles/WebMercatorQuad/1/0/0.png?variable=temperature&bidx=1&rescale=-30,35
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import attr
import xarray
from fastapi import FastAPI
from titiler.core.errors import DEFAULT_STATUS_CODES, add_exception_handlers
from titiler.xarray.factory import TilerFactory
from titiler.xarray.io import Reader

URL = os.environ.get("TILES_URL", "weather.zarr")


@cache  # as titiler's own opener: a data set is opened once
def open_dataset(url: str, **options: Any) -> xarray.Dataset:
    return xarray.open_dataset(url, engine="aiozarr", decode_coords="all", **options)


@attr.s
class AiozarrReader(Reader):
    """titiler's reader, with data sets that aiozarr reads."""

    opener = attr.ib(default=open_dataset)


app = FastAPI()
# One data set: clients that may name any URL could read any file of the server.
app.include_router(TilerFactory(reader=AiozarrReader, path_dependency=lambda: URL).router)
add_exception_handlers(app, DEFAULT_STATUS_CODES)
