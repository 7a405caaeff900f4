"""xpublish-tiles on aiozarr: `TILES_URL=weather.zarr uvicorn xpublish_app:app`.

http://127.0.0.1:8000/datasets/weather/tiles/WebMercatorQuad/1/0/0?variables=temperature&f=image/png and
&width=256&height=256&style=raster/viridis&colorscalerange=-30,35

xpublish-tiles awaits `load_async` for each tile, with a timeout: these are aiozarr's reads.
"""

from __future__ import annotations

import os

import xarray
import xpublish
from xpublish_tiles.xpublish.tiles.plugin import TilesPlugin

weather = xarray.open_dataset(os.environ.get("TILES_URL", "weather.zarr"), engine="aiozarr")
weather.attrs["_xpublish_id"] = "weather"  # xpublish-tiles caches the grid by this name
app = xpublish.Rest({"weather": weather}, plugins={"tiles": TilesPlugin()}).app
