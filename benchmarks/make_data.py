"""Write arrays with zarr-python, so that no compared reader reads its own arrays.

python -m benchmarks.make_data FOLDER LAYOUT...     (a layout: its fields as JSON)
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.layouts import Layout, slabs


def compressor(layout: Layout) -> Any:
    """Return zarr-python's name of the compressor."""
    if layout.codec == "raw":
        return None
    if layout.zarr_format == 2:
        numcodecs = import_module("numcodecs")
        made = {
            "zstd": lambda: numcodecs.Zstd(level=3),
            "gzip": lambda: numcodecs.GZip(level=5),
            "blosc": lambda: numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1),
        }
    else:
        codecs = import_module("zarr.codecs")
        made = {
            "zstd": lambda: codecs.ZstdCodec(level=3),
            "gzip": lambda: codecs.GzipCodec(level=5),
            "blosc": lambda: codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
        }
    return made[layout.codec]()


def make(folder: Path, layout: Layout) -> None:
    """Write one array; it appears under its name once it is complete."""
    unfinished = folder / f"{layout.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    array = import_module("zarr").create_array(
        str(unfinished),
        shape=layout.shape,
        dtype="float32",
        chunks=layout.chunks,
        shards=layout.shards,
        compressors=compressor(layout),
        zarr_format=layout.zarr_format,
    )
    for place, slab in slabs(layout):
        array[place] = slab
    unfinished.rename(folder / layout.name)


def main() -> None:
    folder = Path(sys.argv[1])
    for argument in sys.argv[2:]:
        make(folder, Layout(**json.loads(argument)))


if __name__ == "__main__":
    main()
