"""Elements in files that every environment can read: `.npy` for what numpy has itself, JSON for strings and bytes.

Both sides of an exchange use it, so it imports nothing but numpy, and ml_dtypes for types that need it.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

AnyArray = np.ndarray[Any, np.dtype[Any]]


def dump(array: AnyArray, path: str | Path) -> None:
    """Write the elements; types of other packages as the smallest type of numpy that holds them."""
    array = np.asarray(array)
    if array.dtype.kind in "OT":
        data = [_to_json(item) for item in array.ravel().tolist()]
        Path(path).write_text(json.dumps({"shape": array.shape, "data": data}), "utf-8")
        return
    with Path(path).open("wb") as file:
        np.save(file, plain(array), allow_pickle=False)


def load(path: str | Path) -> AnyArray:
    """Read a file of `dump`; strings and bytes are objects."""
    data = Path(path).read_bytes()
    if data[:1] != b"{":
        loaded: AnyArray = np.load(path, allow_pickle=False)
        return loaded
    members = json.loads(data)
    array = np.empty(len(members["data"]), object)
    array[:] = [_from_json(item) for item in members["data"]]
    return array.reshape(members["shape"])


def plain(array: AnyArray) -> AnyArray:
    """Return the elements in a type that numpy has itself, in native byte order."""
    if array.dtype.type.__module__.startswith("ml_dtypes"):
        wide = np.int8 if "int" in array.dtype.name else np.float32
        return array.astype(wide)
    return array.astype(array.dtype.newbyteorder("="))


def same(one: AnyArray, other: AnyArray) -> bool:
    """Whether all elements are equal, NaN and NaT being equal to themselves."""
    if one.shape != other.shape:
        return False
    if "O" in (one.dtype.kind, other.dtype.kind):
        return [_text(a) for a in one.ravel().tolist()] == [_text(b) for b in other.ravel().tolist()]
    if one.dtype.names is not None:
        return all([same(one[name], other[name]) for name in one.dtype.names])
    if one.dtype.kind == "V" or other.dtype.kind == "V":
        return one.tobytes() == other.tobytes()
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fcMm"))


def _text(item: Any) -> Any:
    return bytes(item) if isinstance(item, (bytes, bytearray, np.bytes_)) else item


def _to_json(item: Any) -> Any:
    if isinstance(item, (bytes, bytearray)):
        return {"base64": base64.b64encode(item).decode()}
    return item


def _from_json(item: Any) -> Any:
    return base64.b64decode(item["base64"]) if isinstance(item, dict) and set(item) == {"base64"} else item
