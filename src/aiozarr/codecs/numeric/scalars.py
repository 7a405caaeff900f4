"""Real numbers in configurations of codecs, in the JSON of fill values (v3 core specification, "fill_value")."""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import numpy as np

from aiozarr.codecs.core.codec import AnyArray
from aiozarr.codecs.core.configuration import invalid
from aiozarr.codecs.serializers.storage_type import bits_used
from aiozarr.common.checks import is_integer
from aiozarr.common.formatting import shown

INTEGERS: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")},
}
FLOATS: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in (
            *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2"),
            *("float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu"),
            *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
        )
    },
}
REAL_TYPES = {**INTEGERS, **FLOATS}

_INTEGER_TYPES = frozenset(INTEGERS.values())
_REAL_TYPES = frozenset(REAL_TYPES.values())
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}", re.ASCII)


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are integers or floating point numbers."""
    return dtype in _REAL_TYPES


def is_integral(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are integers, including those of ml_dtypes."""
    return dtype in _INTEGER_TYPES


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = bits_used(dtype)
    if dtype.name.startswith("u"):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def parse_real(value: object, dtype: np.dtype[Any], key: str) -> AnyArray:
    """Parse a JSON scalar to a 0-d array of `dtype`. Numbers are rounded to floating point types.

    Raises:
        InvalidMetadataError: `dtype` cannot represent the value. The error names the member `key`.
    """
    if is_integral(dtype):
        least, most = limits(dtype)
        # Writers whose numbers are all floating point write 5.0 for 5.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_integer(value) or not least <= value <= most:
            raise invalid(key, f"{shown(value)} is not a value of {dtype}")
        return np.array(value, np.int64 if value < 0 else np.uint64).astype(dtype)
    if isinstance(value, str):
        if value in _NAMED:
            return np.array(_NAMED[value]).astype(dtype)
        bits = int(value, 16) if _HEX.fullmatch(value) else -1
        if 0 <= bits < 1 << (8 * dtype.itemsize) and len(value) == 2 + 2 * dtype.itemsize:
            return np.array(bits, f"u{dtype.itemsize}").view(dtype)
        raise invalid(key, f"{shown(value)} is not a value of {dtype}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid(key, f"{shown(value)} is not a value of {dtype}")
    try:
        number = float(value)
    except OverflowError:
        raise invalid(key, f"{shown(value)} is not a value of {dtype}") from None
    with np.errstate(all="ignore"):
        return np.array(number).astype(dtype)
