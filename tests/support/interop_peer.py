"""A worker that runs another Zarr implementation in the environment that has it.

`python -m tests.support.interop_peer NAME`, from the repository, reads orders from standard input and answers each. An
order is one line of JSON: `{"op": "write" | "read", "path", "format", "document", "values"}`. It answers `{"ok": rows}`
or `{"no": reason}`. Elements are passed in files (`interop_values`).
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tests.support.interop_values import AnyArray, dump, load

ROWS = 4


class ZarrPython:
    """zarr-python, 2 or 3: the document is laid down, opened, rewritten by an attribute, and the rows are set."""

    def __init__(self) -> None:
        import zarr

        self.zarr = zarr
        self.version = str(zarr.__version__)

    def write(self, path: Path, document: dict[str, Any], values: AnyArray) -> int:
        lay_down(path, document)
        array = self.zarr.open_array(str(path), mode="r+")
        array.attrs["written"] = "by a peer"
        array[:ROWS] = values[:ROWS].astype(array.dtype)
        return ROWS

    def read(self, path: Path) -> AnyArray:
        return np.asarray(self.zarr.open_array(str(path), mode="r")[...])


class Zarrs(ZarrPython):
    """zarrs as the codec pipeline of zarr-python, which must not fall back to its own."""

    def __init__(self) -> None:
        super().__init__()
        import zarrs

        self.zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True})
        self.version = str(zarrs.__version__)


class TensorStore:
    """TensorStore's zarr and zarr3 drivers, which create from the document's members."""

    def __init__(self) -> None:
        import importlib.metadata

        import tensorstore

        self.ts = tensorstore
        self.version = importlib.metadata.version("tensorstore")

    def _open(self, path: Path, zarr_format: int, **spec: Any) -> Any:
        driver = "zarr3" if zarr_format == 3 else "zarr"
        kvstore = {"driver": "file", "path": f"{path}/"}
        return self.ts.open({"driver": driver, "kvstore": kvstore, **spec}).result()

    def write(self, path: Path, document: dict[str, Any], values: AnyArray) -> int:
        members = {k: v for k, v in document.items() if k not in ("zarr_format", "node_type")}
        if document["zarr_format"] == 2:
            members["zarr_format"] = 2
        array = self._open(path, document["zarr_format"], metadata=members, create=True)
        check_char(array)
        array[:ROWS].write(values[:ROWS].astype(array.dtype.numpy_dtype)).result()
        return ROWS

    def read(self, path: Path) -> AnyArray:
        array = self._open(path, 3 if (path / "zarr.json").exists() else 2)
        check_char(array)
        return np.asarray(array.read().result())


def check_char(array: Any) -> None:
    if array.dtype.name in ("char", "byte"):
        raise ValueError(f"{array.dtype.name} elements of a further dimension, which numpy gets as bytes of length 0")


class Zarrista:
    """zarrista's own arrays, not by way of zarr-python."""

    def __init__(self) -> None:
        import importlib.metadata

        import zarrista

        self.zarrista = zarrista
        self.version = importlib.metadata.version("zarrista")

    def write(self, path: Path, document: dict[str, Any], values: AnyArray) -> int:
        path.mkdir(parents=True, exist_ok=True)
        array = self.zarrista.Array.from_metadata(document, self.zarrista.store.FilesystemStore(str(path)))
        array.store_metadata()
        rows = values[:ROWS]
        array.store_array_subset((slice(0, ROWS), slice(0, values.shape[1])), np.ascontiguousarray(rows))
        return ROWS

    def read(self, path: Path) -> AnyArray:
        array = self.zarrista.Array.open(self.zarrista.store.FilesystemStore(str(path)))
        read = array.retrieve_array_subset(tuple([slice(0, length) for length in array.shape]))
        return np.asarray(read.to_numpy())


class Gdal:
    """GDAL's Zarr driver by rasterio: numbers in two dimensions, written whole."""

    COMPRESS: ClassVar = {
        "none": "NONE",
        "zlib": "ZLIB",
        "gzip": "GZIP",
        "blosc": "BLOSC",
        "zstd": "ZSTD",
        "lzma": "LZMA",
        "lz4": "LZ4",
    }

    def __init__(self) -> None:
        import rasterio

        self.rasterio = rasterio
        self.version = str(rasterio.__gdal_version__)

    def write(self, path: Path, document: dict[str, Any], values: AnyArray) -> int:
        if values.dtype.kind not in "iufc" or document.get("filters"):
            raise ValueError("GDAL's raster interface writes numbers only")
        three = document["zarr_format"] == 3
        if three:
            chain = [codec["name"] for codec in document["codecs"]]
            if len(chain) > 2 or chain[0] != "bytes" or document["chunk_grid"]["name"] != "regular":
                raise ValueError(f"no creation option for {chain}")
            if document["codecs"][0].get("configuration", {}).get("endian") == "big":
                raise ValueError("no creation option for big-endian values")
            compressor, chunks = (*chain, "none")[1], document["chunk_grid"]["configuration"]["chunk_shape"]
        else:
            if document["dtype"][0] == ">" or document["order"] == "F" or document.get("dimension_separator") == "/":
                raise ValueError("no creation option for this layout")
            compressor, chunks = (document["compressor"] or {"id": "none"})["id"], document["chunks"]
        rows, columns = values.shape
        profile = {
            "driver": "Zarr",
            "FORMAT": "ZARR_V3" if three else "ZARR_V2",
            "COMPRESS": self.COMPRESS[compressor],
            "height": rows,
            "width": columns,
            "count": 1,
            "dtype": values.dtype.name,
            "BLOCKSIZE": ",".join(map(str, chunks)),
        }
        with self.rasterio.open(path, "w", **profile) as target:
            target.write(values, 1)
        return rows

    def read(self, path: Path) -> AnyArray:
        with self.rasterio.open(path) as source:
            return np.asarray(source.read(1))


class NetCDF:
    """netCDF-C's NCZarr: a dataset of one variable; it reads an array inside a group."""

    def __init__(self) -> None:
        import netCDF4

        self.netcdf = netCDF4
        self.version = str(netCDF4.__netcdf4libversion__)

    def write(self, path: Path, document: dict[str, Any], values: AnyArray) -> int:
        if (
            document["zarr_format"] != 2
            or values.dtype.kind not in "iuf"
            or values.dtype.itemsize == 2 == (values.dtype.kind == "f")
        ):
            raise ValueError("NCZarr writes plain numbers of format 2")
        if document["dtype"][0] == ">" or document["order"] == "F" or document.get("dimension_separator") == "/":
            raise ValueError("no creation option for this layout")
        if document.get("filters") or (document["compressor"] or {"id": "zlib"})["id"] != "zlib":
            raise ValueError("only zlib is built in")
        with self.netcdf.Dataset(f"file://{path}#mode=zarr,file", "w") as dataset:
            dataset.createDimension("y", values.shape[0])
            dataset.createDimension("x", values.shape[1])
            variable = dataset.createVariable(
                "v", values.dtype, ("y", "x"), chunksizes=document["chunks"], zlib=document["compressor"] is not None
            )
            variable.set_auto_maskandscale(False)
            variable[:] = values
        return int(values.shape[0])

    def read(self, path: Path) -> AnyArray:
        with self.netcdf.Dataset(f"file://{path.parent}#mode=zarr,file") as dataset:
            variable = dataset.variables[path.name]
            variable.set_auto_maskandscale(False)
            if np.dtype(variable.dtype).kind not in "iuf":
                raise ValueError("text comes as the strings of a variable-length type")
            return np.asarray(variable[:])


PEERS: dict[str, Any] = {
    "zarr2": ZarrPython,
    "zarr3": ZarrPython,
    "tensorstore": TensorStore,
    "zarrs": Zarrs,
    "zarrista": Zarrista,
    "gdal": Gdal,
    "netcdf": NetCDF,
}


def lay_down(path: Path, document: dict[str, Any]) -> None:
    """Write an array's document; in format 2 the attributes have one of their own."""
    path.mkdir(parents=True, exist_ok=True)
    (path / ("zarr.json" if document["zarr_format"] == 3 else ".zarray")).write_text(json.dumps(document), "utf-8")


def answer(peer: Any, order: dict[str, Any]) -> dict[str, Any]:
    path = Path(order["path"])
    try:
        if order["op"] == "write":
            values = typed(load(order["values"]), order["dtype"])
            return {"ok": peer.write(path, order["document"], values)}
        dump(peer.read(path), order["values"])
        return {"ok": 0}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"no": f"{type(error).__name__}: {error}"[:300]}


def typed(values: AnyArray, dtype: str) -> AnyArray:
    """Return the elements in their own type, where the file holds them in a wider one."""
    if not dtype.startswith("ml_dtypes."):
        return values
    import ml_dtypes

    return values.astype(getattr(ml_dtypes, dtype.removeprefix("ml_dtypes.")))


def main() -> None:
    warnings.simplefilter("ignore")
    # What libraries print must not stand between the answers.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    peer = PEERS[sys.argv[1]]()
    out.write(json.dumps({"ok": peer.version}) + "\n")
    for line in sys.stdin:
        out.write(json.dumps(answer(peer, json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
