"""The codec `zfp`: numbers in blocks of 4 elements along each dimension, compressed by zfp without its header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from sys import float_info
from typing import Any, Self

import ml_dtypes
import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.codec import JSON, AnyArray, ArrayBytesCodec, ArraySpec, byte_array, codec_errors
from aiozarr.codecs.registry import (
    CHECKS,
    check_members,
    import_library,
    integer,
    one_of,
    register_codec,
    required,
    unsupported,
)
from aiozarr.errors import CodecError, InvalidMetadataError

_MAX_RANK = 4
_MAX_PRECISION = 64
_PARAMETER = {"reversible": None, "fixed_accuracy": "tolerance", "fixed_rate": "rate", "fixed_precision": "precision"}

# The types that the library compresses, and those that are converted to one of them first.
_NATIVE = {np.dtype(name): np.dtype(name) for name in ("i4", "i8", "f4", "f8")}
_FLOATS = {np.dtype(np.float16): np.dtype("f4"), np.dtype(ml_dtypes.bfloat16): np.dtype("f4")}
_INTEGERS = {np.dtype(name): np.dtype("i4") for name in ("i1", "i2", "u1", "u2")}
_WORKING: dict[np.dtype[Any], np.dtype[Any]] = {**_NATIVE, **_FLOATS, **_INTEGERS}


@register_codec
@dataclass(frozen=True)
class ZfpCodec(ArrayBytesCodec):
    """The codec `zfp` (registry of extensions), for up to 4 dimensions. Expert mode is not supported.

    Small integers are widened as the registry defines. `uint32` and `uint64` are refused, because their conversion to
    zfp's signed integers is not defined.

    Attributes:
        mode: one of "reversible", "fixed_accuracy", "fixed_rate" and "fixed_precision".
        parameter: the tolerance, the rate in bits per element, or the precision in bits; 0 if reversible.
    """

    name = "zfp"
    library = "zfpy"
    extra = "codecs"
    mode: str
    parameter: float = 0

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        if configuration.get("mode") == "expert":
            raise unsupported("zfp's expert mode is not supported", cls.name, member="configuration.mode")
        mode = one_of(configuration, "mode", _PARAMETER)
        key = _PARAMETER[mode]
        check_members(configuration, ("mode",) if key is None else ("mode", key), name=cls.name)
        if key is None:
            parameter: float = 0
        elif key == "precision":
            parameter = integer(configuration, key, 1, _MAX_PRECISION)
        else:
            # A rate above the size of an element wastes space. Above 2,000 it overflows the library's counters.
            parameter = _positive(configuration, key, 2 * _MAX_PRECISION if key == "rate" else None)
        import_library(cls)
        return cls(mode, parameter)

    def to_json(self) -> dict[str, JSON]:
        return {"mode": self.mode, **self._arguments()}

    def resolve(self, spec: ArraySpec) -> None:
        if spec.dtype not in _WORKING:
            raise unsupported(f"codec 'zfp' does not support {spec.dtype}", self.name)
        if len(spec.shape) > _MAX_RANK:
            raise InvalidMetadataError(f"zfp takes at most {_MAX_RANK} dimensions, not {len(spec.shape)}")

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        if spec.size == 0:
            return b""
        working = np.ascontiguousarray(_widen(array, _WORKING[spec.dtype]))
        with codec_errors("compress", self.name, TypeError, ValueError, RuntimeError):
            data: bytes = import_library(self).compress_numpy(working, write_header=False, **self._arguments())
        return data

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        memory = byte_array(data)
        bound = self.max_encoded_size(spec)
        if memory.size > bound or (memory.size == 0) != (spec.size == 0):
            raise CodecError(f"there are {memory.size} bytes, of at most {bound}", codec=self.name)
        if spec.size == 0:
            return np.empty(spec.shape, spec.dtype)
        zfpy = import_library(self)
        working = np.zeros(spec.shape or (1,), _WORKING[spec.dtype])
        # The library reads past the end of truncated data, so the data are padded with zeros up to the bound.
        padded = memory.tobytes().ljust(bound + 64, b"\0")
        kind = zfpy.dtype_to_ztype(working.dtype)
        with codec_errors("decompress", self.name, TypeError, ValueError, RuntimeError):
            zfpy._decompress(padded, kind, working.shape, out=working, **self._arguments())
        return _narrow(working.reshape(spec.shape), spec.dtype)

    def max_encoded_size(self, spec: ArraySpec) -> int:
        # Per block: the bits and tests of each plane, the exponent and a margin; or the bits of a fixed rate.
        rank = max(1, len(spec.shape))
        values: int = 4**rank
        precision = 8 * _WORKING[spec.dtype].itemsize
        bits = values * (precision + 2) + 256
        if self.mode == "fixed_rate":
            bits = max(bits, int(values * self.parameter) + 64)
        blocks = prod(-(-length // 4) for length in spec.shape)
        return -(-blocks * bits // 8) + 64

    def _arguments(self) -> dict[str, float]:
        key = _PARAMETER[self.mode]
        return {} if key is None else {key: self.parameter}


def _positive(configuration: Mapping[str, JSON], key: str, most: float | None) -> float:
    expected = f"a positive number{'' if most is None else f' of at most {most}'}"
    bound = float_info.max if most is None else most
    return CHECKS.number(required(configuration, key), key, expected, lambda number: 0 < number <= bound)


def _widen(array: AnyArray, working: np.dtype[Any]) -> AnyArray:
    if array.dtype not in _INTEGERS:
        return array.astype(working, copy=False)
    bits = 8 * array.dtype.itemsize
    offset = 1 << (bits - 1) if array.dtype.kind == "u" else 0
    return (array.astype(working) - offset) << (31 - bits)


def _narrow(array: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    if dtype not in _INTEGERS:
        with np.errstate(over="ignore"):
            return array.astype(dtype, copy=False)
    bits = 8 * dtype.itemsize
    offset = 1 << (bits - 1) if dtype.kind == "u" else 0
    limits = np.iinfo(dtype)
    narrow: AnyArray = np.clip((array >> (31 - bits)) + offset, limits.min, limits.max)
    return narrow.astype(dtype)
