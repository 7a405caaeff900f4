"""Documents of a small array, which tests change."""

from typing import Any


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    """Return the member of a document of format 3 that names a codec, a grid, a key encoding or a data type."""
    return {"name": name, "configuration": configuration}


LITTLE = codec("bytes", endian="little")
V3: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "int32",
    "chunk_grid": codec("regular", chunk_shape=[2]),
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [LITTLE],
}
V2: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4],
    "chunks": [2],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}
