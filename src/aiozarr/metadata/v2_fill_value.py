"""Parse and render fill values of v1 and v2 documents (v2, "Fill value encoding")."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.byte_strings import parse_base64
from aiozarr.metadata.document import integral, respelled_number
from aiozarr.metadata.v2_dtype import NAMED

MEMBER = "fill_value"
NAMED_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_NAT = -(1 << 63)


def parse_v2_fill(
    value: object, dtype: np.dtype[Any], *, kind: str, strict: bool, plain_text: bool = False
) -> NDArray[Any]:
    """Return the read-only 0-d array of a `fill_value` member that is not null.

    Args:
        value: the member.
        dtype: the type of elements in memory, in native byte order.
        kind: kind of the numpy type; `T` for strings and `B` for bytes of variable length.
        strict: reject forms that the specification does not have.
        plain_text: strings of bytes are text, as in v1; in v2 they are base64.

    Raises:
        InvalidMetadataError: `value` is not a fill value of this type.
    """
    array = np.empty((), dtype)
    if dtype.name in NAMED:
        # TensorStore, the only other writer of this type, writes its fill value as bytes.
        if dtype.name == "float4_e2m1fn" and isinstance(value, str) and value not in NAMED_FLOATS:
            return _frozen(_bytes(value, np.dtype("V1"), strict).view(dtype))
        array[()] = _number(value, dtype, strict)
        return _frozen(array)
    match kind:
        case "b":
            array[()] = _boolean(value, strict)
        case "i" | "u":
            array[()] = _integer(value, np.iinfo(dtype).min, np.iinfo(dtype).max, strict)
        case "f":
            array = _float(value, dtype, strict)
        case "c":
            array = _complex(value, dtype, strict)
        case "m" | "M":
            nat = not strict and value == "NaT"
            number = _NAT if nat else _integer(value, _NAT, (1 << 63) - 1, strict)
            array = np.array(number, "i8").view(dtype)
        case "S" if plain_text and isinstance(value, str):
            array[()] = _fitting(_ascii(value), dtype)
        case "S" | "V":
            array = _bytes(value, dtype, strict)
        case "U" | "T":
            array[()] = _text(value, dtype, strict)
        case "B":
            array[()] = b"" if _is_zero(value, strict) else _base64(value)
        case _:
            # An object may be any JSON value. A list must not become an array.
            array = np.empty((), object)
            array[()] = value
    return _frozen(array)


def render_v2_fill(array: NDArray[Any], *, kind: str, plain_text: bool = False) -> Any:
    """Return the `fill_value` member for a 0-d array, which parses to the same value. A NaN loses its payload."""
    dtype = array.dtype
    if dtype.name in NAMED:
        if dtype.name == "float4_e2m1fn":
            return base64.standard_b64encode(array.tobytes()).decode()
        return int(array) if "int" in dtype.name else render_float(float(array))
    match kind:
        case "f":
            return render_float(float(array))
        case "c":
            value = complex(array)
            return [render_float(value.real), render_float(value.imag)]
        case "m" | "M":
            return int(array.view("i8"))
        case "S" if plain_text:
            return array.item().decode("latin-1")
        case "S":
            # Without padding zeros, as in zarr-python.
            return base64.standard_b64encode(array.item()).decode()
        case "V":
            return base64.standard_b64encode(array.tobytes()).decode()
        case "U" | "T":
            return str(array.item())
        case "B":
            return base64.standard_b64encode(bytes(array.item())).decode()
        case _:
            return array.item()


def render_float(value: float) -> float | str:
    """Return `value` as in JSON, with NaN and infinities as strings."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _boolean(value: object, strict: bool) -> bool:
    # zarr-python 1 and GDAL write 0.
    if isinstance(value, bool) or (not strict and type(value) in (int, float) and value in (0, 1)):
        return bool(value)
    raise _wrong("true or false")


def _integer(value: object, minimum: int, maximum: int, strict: bool) -> int:
    # z5py writes 0.0 for integers, and GDAL "0".
    number = value if strict else integral(respelled_number(value))
    # Python counts bool as int.
    if type(number) is not int:
        raise _wrong("an integer")
    if not minimum <= number <= maximum:
        raise InvalidMetadataError("the fill value is out of the range of its type", member=MEMBER)
    return number


def _float(value: object, dtype: np.dtype[Any], strict: bool) -> NDArray[Any]:
    is_hex = isinstance(value, str) and len(value) == 2 + 2 * dtype.itemsize and _HEX.fullmatch(value)
    if is_hex and not strict:
        return np.array(int(str(value), 16), f"u{dtype.itemsize}").view(dtype)
    with np.errstate(over="ignore", under="ignore"):
        return np.array(_number(value, dtype, strict)).astype(dtype)


def _number(value: object, dtype: np.dtype[Any], strict: bool) -> float | int:
    if "int" in dtype.name:
        bits = int(dtype.name.removeprefix("u").removeprefix("int"))
        minimum, maximum = (0, (1 << bits) - 1) if dtype.name.startswith("u") else (-1 << bits - 1, (1 << bits - 1) - 1)
        return _integer(value, minimum, maximum, strict)
    if isinstance(value, str):
        value = NAMED_FLOATS.get(value, value)
    value = value if strict else respelled_number(value)
    if type(value) is not float and type(value) is not int:
        raise _wrong("a number, 'NaN', 'Infinity' or '-Infinity'")
    try:
        return float(value)
    except OverflowError:
        raise InvalidMetadataError("the fill value is out of the range of its type", member=MEMBER) from None


def _complex(value: object, dtype: np.dtype[Any], strict: bool) -> NDArray[Any]:
    part = np.dtype(f"f{dtype.itemsize // 2}")
    if type(value) in (int, float) and not strict:
        value = [value, 0]
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong("a list of two numbers")
    # Set both parts in memory: arithmetic such as re + 1j * im changes infinities and the sign of zero.
    return np.array([_float(each, part, strict) for each in value], part).view(dtype).reshape(())


def _bytes(value: object, dtype: np.dtype[Any], strict: bool) -> NDArray[Any]:
    if _is_zero(value, strict):
        return np.zeros((), dtype) if dtype.kind == "V" else np.array(b"0", dtype)
    if isinstance(value, str) and len(value) > 4 * (dtype.itemsize // 3 + 1):
        raise InvalidMetadataError(f"the fill value has more than {dtype.itemsize} bytes", member=MEMBER)
    try:
        data = _base64(value)
    except InvalidMetadataError:
        # Writers before the base64 rule wrote the bytes as text.
        if strict or dtype.kind != "S" or not isinstance(value, str):
            raise
        data = _ascii(value)
    if dtype.kind == "S":
        return np.array(_fitting(data, dtype), dtype)
    if len(data) != dtype.itemsize:
        raise InvalidMetadataError(f"the fill value has {len(data)} bytes, not {dtype.itemsize}", member=MEMBER)
    # The bytes have the layout of the stored type; `v2` passes records in stored byte order.
    return np.frombuffer(data, dtype, 1).reshape(()).copy()


def _fitting(data: bytes, dtype: np.dtype[Any]) -> bytes:
    if len(data) > dtype.itemsize:
        raise InvalidMetadataError(f"the fill value has {len(data)} bytes; at most {dtype.itemsize} fit", member=MEMBER)
    return data


def _text(value: object, dtype: np.dtype[Any], strict: bool) -> str:
    # zarr-python 2 writes 0 for strings without a fill value, and reads it as text.
    if type(value) in (int, float) and not strict:
        value = str(value)
    if not isinstance(value, str):
        raise _wrong("a string")
    if dtype.kind == "U" and len(value) > dtype.itemsize // 4:
        raise InvalidMetadataError(
            f"the fill value has {len(value)} characters; at most {dtype.itemsize // 4} fit", member=MEMBER
        )
    return value


def _is_zero(value: object, strict: bool) -> bool:
    return not strict and type(value) in (int, float) and value == 0


def _base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise _wrong("a string in base64")
    return parse_base64(value, MEMBER)


def _ascii(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidMetadataError("the fill value of bytes has characters above U+00FF", member=MEMBER) from None


def _wrong(wanted: str) -> InvalidMetadataError:
    return InvalidMetadataError(f"the fill value of this type is {wanted}", member=MEMBER)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
