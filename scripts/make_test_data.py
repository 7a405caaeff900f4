"""Write `tests/data`: small stores by the installed zarr-python and TensorStore, with the values they must read as.

The folder is committed, so that what these versions wrote is still read when newer ones write otherwise. Run it by
hand, after an addition to `CASES`: `.venv/bin/python scripts/make_test_data.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr
from numpy.typing import NDArray

DATA = Path(__file__).parents[1] / "tests" / "data"
SHAPE = (7, 11)
CHUNKS = (4, 6)

BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
BIG: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "big"}}
CRC32C: dict[str, Any] = {"name": "crc32c"}
GZIP: dict[str, Any] = {"name": "gzip", "configuration": {"level": 6}}
ZSTD: dict[str, Any] = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
SWAP: dict[str, Any] = {"name": "transpose", "configuration": {"order": [1, 0]}}
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]


def blosc(cname: str, shuffle: str, typesize: int) -> dict[str, Any]:
    settings = {"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": typesize, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}


def shard(inner: tuple[int, ...], codecs: list[dict[str, Any]], location: str = "end") -> dict[str, Any]:
    configuration = {
        "chunk_shape": list(inner),
        "codecs": codecs,
        "index_codecs": [BYTES, CRC32C],
        "index_location": location,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


@dataclass(frozen=True)
class Case:
    """One array: its type, the chunks of its grid, its codecs and its key encoding."""

    name: str
    dtype: str = "int32"
    chunks: tuple[int, ...] = CHUNKS
    codecs: list[dict[str, Any]] = field(default_factory=lambda: [BYTES])
    keys: tuple[str, str] = ("default", "/")
    fill: Any = 0
    shape: tuple[int, ...] = SHAPE
    holes: bool = False

    def document(self) -> dict[str, Any]:
        """The metadata document."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}},
            "chunk_key_encoding": {"name": self.keys[0], "configuration": {"separator": self.keys[1]}},
            "fill_value": self.fill,
            "codecs": self.codecs,
            "attributes": {"case": self.name, "unit": "µm", "nested": {"list": [1, 2.5, None, True]}},
        }

    def values(self) -> NDArray[Any]:
        """Return the elements: noise in integers, special values in floats; with holes, one chunk of fill values."""
        dtype = np.dtype(self.dtype)
        count = int(np.prod(self.shape, dtype=int))
        if dtype.kind == "b":
            values = np.arange(count) % 3 == 0
        elif dtype.kind in "iu":
            values = np.random.default_rng(3).integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
        else:
            parts = np.linspace(-9, 9, count * (2 if dtype.kind == "c" else 1))
            values = (parts.view(np.complex128) if dtype.kind == "c" else parts).astype(dtype)
            values[:3] = [np.nan, np.inf, -0.0][:count]
        shaped: NDArray[Any] = values.reshape(self.shape).astype(dtype)
        if self.holes:
            shaped[: self.chunks[0], : self.chunks[1]] = self.fill
        return shaped


def cases() -> Iterator[Case]:
    for dtype in TYPES:
        boolean = dtype == "bool"
        single = np.dtype(dtype).itemsize == 1
        fill: Any = [0.0, 0.0] if dtype.startswith("complex") else False if boolean else 0
        yield Case(f"type-{dtype}", dtype, codecs=[{"name": "bytes"} if single else BYTES, ZSTD], fill=fill)
    for dtype in ("int16", "float64", "complex64"):
        fill = [0.0, 0.0] if dtype.startswith("complex") else 0
        yield Case(f"big-endian-{dtype}", dtype, codecs=[BIG], fill=fill)
    yield Case("fill-nan", "float32", fill="NaN", holes=False)
    yield Case("fill-bits", "float32", fill="0x7fc00001")
    yield Case("fill-infinity", "float64", fill="-Infinity")
    yield Case("holes", holes=True, fill=5)
    yield Case("gzip", codecs=[BYTES, GZIP])
    yield Case("crc32c", codecs=[BYTES, CRC32C])
    yield Case("zstd-crc32c", codecs=[BYTES, ZSTD, CRC32C])
    yield Case("transpose", codecs=[SWAP, BYTES, GZIP])
    for cname, shuffle in (("lz4", "shuffle"), ("zstd", "bitshuffle"), ("zlib", "noshuffle"), ("blosclz", "shuffle")):
        yield Case(f"blosc-{cname}-{shuffle}", codecs=[BYTES, blosc(cname, shuffle, 4)])
    yield Case("keys-default-dot", keys=("default", "."))
    yield Case("keys-v2-dot", keys=("v2", "."))
    yield Case("keys-v2-slash", keys=("v2", "/"))
    yield Case("scalar", shape=(), chunks=())
    yield Case("empty", shape=(0, 4), chunks=(2, 2))
    yield Case("one-dimension", shape=(23,), chunks=(5,))
    yield Case("four-dimensions", shape=(3, 2, 4, 5), chunks=(2, 2, 3, 2))
    yield Case("shard-end", codecs=[shard((2, 3), [BYTES, ZSTD])])
    yield Case("shard-start", codecs=[shard((2, 3), [BYTES, CRC32C], "start")])
    yield Case("shard-holes", codecs=[shard((2, 3), [BYTES, GZIP])], holes=True, fill=5)
    yield Case("shard-transpose-inside", codecs=[shard((2, 3), [SWAP, BYTES])])
    yield Case("shard-then-crc32c", codecs=[shard((2, 3), [BYTES]), CRC32C])
    yield Case("shard-nested", codecs=[shard((2, 6), [shard((1, 3), [BYTES, ZSTD])])])


def write_zarr_python(case: Case, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "zarr.json").write_text(json.dumps(case.document()), "utf-8")
    zarr.open_array(str(folder), mode="r+")[...] = case.values()


def write_tensorstore(case: Case, folder: Path) -> None:
    document = {key: value for key, value in case.document().items() if key not in ("zarr_format", "node_type")}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/"}, "metadata": document}
    tensorstore.open(spec, create=True).result()[...].write(case.values()).result()


WRITERS = {
    f"zarr-python-{zarr.__version__}": write_zarr_python,
    f"tensorstore-{version('tensorstore')}": write_tensorstore,
}


def main() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    (DATA / "expected").mkdir(parents=True)
    entries: list[dict[str, Any]] = []
    for case in cases():
        np.save(DATA / "expected" / f"{case.name}.npy", case.values())
        for writer, write in WRITERS.items():
            folder = DATA / writer / case.name
            try:
                write(case, folder)
            except Exception as refusal:
                # Not every writer does every case: what it does is kept, and what it refuses is said.
                shutil.rmtree(folder, ignore_errors=True)
                print(f"{writer} refuses {case.name}: {str(refusal)[:100]}")
                continue
            entries.append({"writer": writer, "case": case.name, "path": f"{writer}/{case.name}"})
    text = ",\n".join(json.dumps(entry) for entry in entries)
    (DATA / "manifest.json").write_text(f"[\n{text}\n]\n", "utf-8")
    size = sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file())
    print(f"{len(entries)} stores, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
