"""Write the data set that titiler-xarray and xpublish-tiles show: hours of a temperature by latitude and longitude.

python make_weather.py weather.zarr
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

import aiozarr

HOURS = 6


def temperature() -> np.ndarray:
    """Return degrees Celsius by hour, latitude (from the north) and longitude: waves that travel eastward."""
    latitude, longitude = np.radians(np.linspace(85, -85, 341)), np.radians(np.linspace(-180, 179.5, 720))
    zones = 45 * np.cos(latitude)[:, None] - 18
    waves = [6 * np.sin(5 * longitude - hour / 3) * np.sin(2 * latitude)[:, None] for hour in range(HOURS)]
    return (zones + np.stack(waves)).astype("f4")


async def main(url: str) -> None:
    values = temperature()
    axes = {
        "time": (np.arange(HOURS), {"standard_name": "time", "axis": "T", "units": "hours since 2026-01-01"}),
        "latitude": (
            np.linspace(85, -85, values.shape[1]),
            {"standard_name": "latitude", "axis": "Y", "units": "degrees_north"},
        ),
        "longitude": (
            np.linspace(-180, 179.5, values.shape[2]),
            {"standard_name": "longitude", "axis": "X", "units": "degrees_east"},
        ),
    }
    async with aiozarr.create_group(url, attributes={"Conventions": "CF-1.11"}, overwrite=True) as group:
        for name, (axis, attributes) in axes.items():
            await group.create_array(name, data=axis, dimension_names=[name], attributes=attributes)
        await group.create_array(
            "temperature",
            data=values,
            chunks=(1, 128, 128),
            codecs=["zstd"],
            fill_value=np.nan,
            dimension_names=list(axes),
            attributes={"long_name": "air temperature", "units": "degC", "valid_min": -30.0, "valid_max": 35.0},
        )
    await aiozarr.consolidate_metadata(url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
