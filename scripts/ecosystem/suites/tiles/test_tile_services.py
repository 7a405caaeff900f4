"""Tile services of other projects over aiozarr: run by uvicorn, and compared with zarr-python's own reads."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import xarray
import zarr
from PIL import Image
from rasterio.crs import CRS
from rio_tiler.experimental.zarr import AsyncArrayReader, AsyncGroupReader, _get_transform

import aiozarr.integrations.zarr
from scripts.ecosystem.worlds import ROOT
from tests.support.servers.http_server import FaultServer

EXAMPLE = ROOT / "examples" / "tiles"
WEB = CRS.from_epsg(3857)
HOUR = "time=2026-01-01T02:00:00.000000000"

pytestmark = pytest.mark.filterwarnings("ignore")


def make(script: str, target: Path) -> dict[str, bytes]:
    """Write the store of a script of the example, and return its objects."""
    subprocess.run([sys.executable, f"{script}.py", str(target)], cwd=EXAMPLE, check=True)
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def pyramid(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("tiles") / "pyramid.zarr"
    return str(folder), make("make_store", folder)


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("tiles") / "weather.zarr"
    return str(folder), make("make_weather", folder)


@contextmanager
def service(application: str, url: str, ready: str, **environment: str) -> Iterator[httpx.Client]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "uvicorn", application, "--port", str(port), "--log-level", "warning"],
        cwd=EXAMPLE,
        env={**os.environ, "TILES_URL": url, **environment},
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            until = time.monotonic() + 300
            while True:
                try:
                    client.get(ready)
                    break
                except httpx.ConnectError:
                    assert process.poll() is None, "the service has ended"
                    assert time.monotonic() < until, "the service does not answer"
                    time.sleep(0.1)
            yield client
    finally:
        process.terminate()
        process.wait(30)


def pixels(image: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(BytesIO(image)).convert("RGBA"))


def test_rio_tiler_serves_the_tiles_of_zarr_python(pyramid: tuple[str, dict[str, bytes]]) -> None:
    folder, values = pyramid
    group = zarr.open_group(folder, mode="r")
    with FaultServer(values) as server, service("rio_tiler_app:app", server.url, "/openapi.json") as client:
        # The last is beyond the finest level, and one is between two rows of tiles.
        for z, x, y in ((0, 0, 0), (1, 1, 0), (4, 7, 9), (6, 30, 31)):
            reader = AsyncArrayReader(group[str(min(z, 4))]._async_array)
            expected = asyncio.run(reader.tile(x, y, z, tilesize=256))
            answer = client.get(f"/tiles/{z}/{x}/{y}.png")
            assert answer.status_code == 200
            np.testing.assert_array_equal(pixels(answer.content), pixels(expected.render(img_format="PNG")))
        for path in ("/tiles/0/1/0.png", "/tiles/-1/0/0.png", "/tiles/99/0/0.png"):
            assert client.get(path).status_code == 404


def test_reads_of_rio_tiler_end_with_their_clients_and_deadlines(pyramid: tuple[str, dict[str, bytes]]) -> None:
    with (
        FaultServer(pyramid[1]) as server,
        service("rio_tiler_app:app", server.url, "/openapi.json", TILES_DEADLINE="1.5") as client,
    ):
        server.latency = 30
        with pytest.raises(httpx.TimeoutException):
            client.get("/tiles/1/1/1.png", timeout=0.5)
        for _ in range(200):
            if not server.in_flight:
                break
            time.sleep(0.02)
        assert server.in_flight == 0
        assert client.get("/tiles/1/1/1.png").status_code == 504
        server.latency = 0
        assert client.get("/tiles/1/1/1.png").status_code == 200


async def test_a_reader_does_not_move_an_array_that_is_registered_by_its_nodes() -> None:
    transform = [10.0, 0.0, 5.0, 0.0, -10.0, 95.0]
    attributes = {
        "zarr_conventions": [{"uuid": "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"}],
        "spatial:transform": transform,
        "spatial:registration": "node",
    }
    store = aiozarr.stores.MemoryStore()
    array = await aiozarr.create_array(store, data=np.ones((3, 8, 8), "u1"), attributes=attributes)
    like = aiozarr.integrations.zarr.AsyncArrayLike(array)
    # rio-tiler corrects the list in place; each reader gets a copy of its own.
    first, second = [AsyncArrayReader(like, crs=WEB).transform for _ in range(2)]
    assert first == second == _get_transform({**attributes, "spatial:transform": list(transform)})
    part = await AsyncArrayReader(like, crs=WEB).part((0, 20, 40, 60), indexes=(3, 1), bounds_crs=WEB)
    assert part.data.shape == (2, 4, 4)
    assert (await AsyncArrayReader(like, crs=WEB).info()).count == 3


async def test_rio_tilers_reader_of_groups_reads_by_the_codec_pipeline(tmp_path: Path) -> None:
    conventions = [
        {"uuid": "f17cb550-5864-4468-aeb7-f3180cfb622f"},
        {"uuid": "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"},
    ]
    attributes = {
        "zarr_conventions": conventions,
        "proj:code": "EPSG:3857",
        "spatial:dimensions": ["y", "x"],
        "spatial:transform": [10.0, 0.0, 0.0, 0.0, -10.0, 640.0],
        "spatial:bbox": [0.0, 0.0, 640.0, 640.0],
    }
    group = await aiozarr.create_group(tmp_path / "geo.zarr", attributes=attributes)
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    await group.create_array("height", data=values, chunks=(16, 16), dimension_names=["y", "x"], fill_value=-1.0)
    store = aiozarr.integrations.zarr.Store(aiozarr.stores.LocalStore(tmp_path / "geo.zarr"))
    with aiozarr.integrations.zarr.enable():
        reader = AsyncGroupReader(await zarr.api.asynchronous.open_group(store, mode="r"))
        before = aiozarr.integrations.zarr.usage().reads
        part = await reader.part((0, 0, 640, 640), variables="height", bounds_crs=WEB, dst_crs=WEB)
        assert aiozarr.integrations.zarr.usage().reads > before
    np.testing.assert_array_equal(part.data[0], values)


def test_titiler_xarray_serves_the_same_tiles_as_with_its_own_opener(weather: tuple[str, dict[str, bytes]]) -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from titiler.xarray.factory import TilerFactory

    folder, values = weather
    stock = FastAPI()
    stock.include_router(TilerFactory().router)
    options = {"variable": "temperature", "sel": HOUR, "rescale": "-30,35"}
    with (
        TestClient(stock) as expected,
        FaultServer(values) as server,
        service("titiler_app:app", server.url, "/openapi.json") as client,
    ):
        for path in ("/tiles/WebMercatorQuad/0/0/0.png", "/tiles/WebMercatorQuad/3/4/2.png", "/info"):
            answer = client.get(path, params=options)
            assert answer.status_code == 200, answer.text
            wanted = expected.get(path, params={**options, "url": folder})
            if path.endswith("png"):
                np.testing.assert_array_equal(pixels(answer.content), pixels(wanted.content))
            else:
                assert answer.json() == wanted.json()
        # The data set was opened once; its metadata are consolidated.
        assert len([each for each in server.requests if each.key == "zarr.json"]) == 1


def test_xpublish_tiles_awaits_reads_of_the_engine(weather: tuple[str, dict[str, bytes]]) -> None:
    import xpublish
    from fastapi.testclient import TestClient
    from xpublish_tiles.xpublish.tiles.plugin import TilesPlugin

    folder, values = weather
    dataset = xarray.open_dataset(folder, engine="zarr", chunks=None)
    dataset.attrs["_xpublish_id"] = "stock"
    stock = xpublish.Rest({"weather": dataset}, plugins={"tiles": TilesPlugin()}).app
    options = {
        "variables": "temperature",
        "time": "2026-01-01T02:00",
        "width": 256,
        "height": 256,
        "style": "raster/viridis",
        "colorscalerange": "-30,35",
        "f": "image/png",
    }
    with (
        TestClient(stock) as expected,
        FaultServer(values) as server,
        service("xpublish_app:app", server.url, "/openapi.json") as client,
    ):
        for tile in ("0/0/0", "3/4/2"):
            path = f"/datasets/weather/tiles/WebMercatorQuad/{tile}"
            answer = client.get(path, params=options)
            assert answer.status_code == 200, answer.text
            np.testing.assert_array_equal(pixels(answer.content), pixels(expected.get(path, params=options).content))
        chunks = [each for each in server.requests if each.key.startswith("temperature/c/")]
        assert chunks
        # One hour only.
        assert {each.key.split("/")[2] for each in chunks} == {"2"}
