"""Fill values: JSON in a document, 0-d arrays in memory, of the same bits (v3 core specification, "fill_value")."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import DataType

_NAMED_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)


def parse_fill_value(value: object, data_type: DataType, *, member: str = "fill_value") -> NDArray[Any]:
    """Return the read-only 0-d array that the `fill_value` member describes for `data_type`.

    Raises:
        InvalidMetadataError: `value` is no fill value of this type.
    """
    dtype = data_type.dtype
    match dtype.kind:
        case "b":
            if not isinstance(value, bool):
                raise InvalidMetadataError("the fill value of bool is true or false", member=member)
            return _frozen(np.array(value))
        case "i" | "u":
            return _frozen(_parse_integer(value, dtype, member))
        case "f":
            return _frozen(_parse_float(value, dtype, member))
        case "c":
            return _frozen(_parse_complex(value, dtype, member))
        case _:
            return _frozen(_parse_raw(value, dtype, member))


def render_fill_value(array: NDArray[Any], data_type: DataType) -> Any:
    """Return the `fill_value` member for the 0-d `array` of `data_type.dtype`; it parses to the same bits."""
    match data_type.dtype.kind:
        case "b" | "i" | "u":
            return array.item()
        case "f":
            return _render_float(array)
        case "c":
            parts = array.reshape(1).view(f"f{array.dtype.itemsize // 2}")
            return [_render_float(parts[0, ...]), _render_float(parts[1, ...])]
        case _:
            return list(array.tobytes())


def make_fill_value(value: object, data_type: DataType) -> NDArray[Any]:
    """Return the read-only 0-d array of a fill value that a caller gave; None gives the type's default.

    Floating point values are rounded to the type; everything else must be representable. Raw types take bytes.

    Raises:
        TypeError: `value` is no scalar.
        ValueError: the type has no such value.
    """
    if value is None:
        return data_type.default_fill_value
    dtype = data_type.dtype
    if dtype.kind == "V":
        raw = value.tobytes() if isinstance(value, np.void | np.ndarray) else value
        if not isinstance(raw, bytes | bytearray | memoryview) or len(raw) != dtype.itemsize:
            raise ValueError(f"a fill value of {data_type.name} is {dtype.itemsize} bytes, not {value!r}")
        return _frozen(np.frombuffer(bytes(raw), dtype).reshape(()))
    given = np.asarray(value)
    if given.ndim or given.dtype.kind not in "biufcO":
        raise TypeError(f"a fill value of {data_type.name} is a number or bool, not {value!r}")
    # Complex numbers have no order and floats no exact integers: only these casts keep their meaning.
    if given.dtype.kind == "O" or (given.dtype.kind == "c" and dtype.kind != "c"):
        raise ValueError(f"{data_type.name} has no value {value!r}")
    with np.errstate(all="ignore"):
        cast = given.astype(dtype)
        if dtype.kind not in "fc" and cast.item() != given.item():
            raise ValueError(f"{data_type.name} has no value {value!r}")
    return _frozen(cast)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _parse_integer(value: object, dtype: np.dtype[Any], member: str) -> NDArray[Any]:
    # bool is an int to Python, and 1.0 has a fraction part to JSON.
    if type(value) is not int:
        raise InvalidMetadataError(f"the fill value of {dtype} is an integer", member=member)
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise InvalidMetadataError(f"the fill value is out of the range of {dtype}", member=member)
    return np.array(value, dtype)


def _parse_float(value: object, dtype: np.dtype[Any], member: str) -> NDArray[Any]:
    if isinstance(value, str):
        return _parse_float_string(value, dtype, member)
    if type(value) is not float and type(value) is not int:
        raise InvalidMetadataError(f"the fill value of {dtype} is a number or a string", member=member)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        # Infinity has a spelling of its own; a number such as 1e999 is more likely a mistake than a rounding.
        raise InvalidMetadataError(f"the number is beyond the range of {dtype}", member=member)
    with np.errstate(over="ignore", under="ignore"):
        return np.array(number).astype(dtype)


def _parse_float_string(text: str, dtype: np.dtype[Any], member: str) -> NDArray[Any]:
    if text in _NAMED_FLOATS:
        return np.array(_NAMED_FLOATS[text]).astype(dtype)
    if _HEX.fullmatch(text) is None or len(text) != 2 + 2 * dtype.itemsize:
        raise InvalidMetadataError(
            f"the fill value of {dtype} is a number, 'NaN', 'Infinity', '-Infinity' or '0x' and "
            f"{2 * dtype.itemsize} hexadecimal digits",
            member=member,
        )
    return np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)


def _parse_complex(value: object, dtype: np.dtype[Any], member: str) -> NDArray[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidMetadataError(f"the fill value of {dtype} is a list of two parts", member=member)
    part_dtype = np.dtype(f"f{dtype.itemsize // 2}")
    parts = [_parse_float(part, part_dtype, f"{member}[{i}]") for i, part in enumerate(value)]
    # Side by side in memory: arithmetic such as re + 1j * im would change NaN payloads and the sign of zero.
    return np.array(parts, part_dtype).view(dtype).reshape(())


def _parse_raw(value: object, dtype: np.dtype[Any], member: str) -> NDArray[Any]:
    # The specification writes "length equal to <N>", and N counts bits; a list of bytes can only mean N / 8.
    if not isinstance(value, list) or len(value) != dtype.itemsize:
        reason = f"the fill value of r{8 * dtype.itemsize} is a list of {dtype.itemsize} bytes"
        raise InvalidMetadataError(reason, member=member)
    for i, byte in enumerate(value):
        if type(byte) is not int or not 0 <= byte <= 255:
            raise InvalidMetadataError("not an integer from 0 to 255", member=f"{member}[{i}]")
    return np.array(bytearray(value), np.uint8).view(dtype).reshape(())


def _render_float(array: NDArray[Any]) -> float | str:
    number = float(array)
    if math.isfinite(number):
        return number
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    digits = 2 * array.dtype.itemsize
    bits = int(array.copy().view(f"u{array.dtype.itemsize}"))
    canonical = int(np.array(math.nan).astype(array.dtype).view(f"u{array.dtype.itemsize}"))
    return "NaN" if bits == canonical else f"0x{bits:0{digits}x}"
