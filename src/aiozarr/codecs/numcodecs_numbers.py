"""The array -> bytes codecs `numcodecs.pcodec` and `numcodecs.zfpy`: numbers, encoded by optional libraries.

Headers are checked against the array before memory is allocated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.codec import JSON, AnyArray, ArrayBytesCodec, ArraySpec
from aiozarr.codecs.registry import (
    CHECKS,
    FieldsCodec,
    check_members,
    import_library,
    integer,
    number,
    one_of,
    register_codec,
)
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError, InvalidMetadataError

_TIMES = "mM"
_ZFP_MODES = {2: "rate", 3: "precision", 4: "tolerance"}
_ZFP_HEADER = 32
_ZFP_SLACK = 64
_MAX_RATE = 128


class NumbersCodec(ArrayBytesCodec):
    """Encodes arrays of numbers of the types that a library supports. Times are encoded as integers."""

    numcodecs_id: ClassVar[str]
    library: ClassVar[str]
    extra: ClassVar[str] = "codecs"
    types: ClassVar[frozenset[str]]

    @abstractmethod
    def compress(self, array: AnyArray) -> Buffer:
        """Return the encoding of a C-contiguous array."""

    @abstractmethod
    def decompress(self, data: bytes, size: int, dtype: np.dtype[Any]) -> AnyArray:
        """Return `size` elements of `dtype` as a flat array."""

    def resolve(self, spec: ArraySpec) -> None:
        if not self.takes(spec.dtype):
            raise InvalidMetadataError(f"codec {self.name!r} encodes {', '.join(sorted(self.types))}, not {spec.dtype}")

    def takes(self, dtype: np.dtype[Any]) -> bool:
        """Return whether elements of `dtype` can be encoded."""
        return dtype.isnative and _numbers(dtype).str[1:] in self.types

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        contiguous: AnyArray = np.ascontiguousarray(array).reshape(array.shape)
        with self._guard("compress"):
            return self.compress(contiguous.view(_numbers(spec.dtype)))

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        with self._guard("decompress"):
            flat = self.decompress(bytes(data), spec.size, _numbers(spec.dtype))
        return flat.view(spec.dtype).reshape(spec.shape)

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        try:
            yield
        except CodecError:
            raise
        except BaseException as error:
            # A panic in Rust raises a BaseException. Those of the interpreter itself are not caught.
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise CodecError(f"cannot {what}: {shown(str(error))}", codec=self.name) from error
            raise


@register_codec
@dataclass(frozen=True)
class NumcodecsPcodecCodec(NumbersCodec):
    """The codec `numcodecs.pcodec`: integers and floating-point numbers of 16 to 64 bits, losslessly."""

    name = "numcodecs.pcodec"
    numcodecs_id = "pcodec"
    library = "pcodec"
    types = frozenset(("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8"))
    configuration: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        names = ("mode_spec", "delta_spec", "paging_spec")
        check_members(configuration, ("level", "delta_encoding_order", "equal_pages_up_to", *names), name=cls.name)
        integer(configuration, "level", 0, 12, 8)
        integer(configuration, "equal_pages_up_to", 1, 2**31 - 1, 1 << 18)
        if configuration.get("delta_encoding_order") is not None:
            integer(configuration, "delta_encoding_order", 0, 7)
        for key in names:
            CHECKS.check(configuration.get(key, ""), key, str, "a string")
        import_library(cls)
        return cls(dict(configuration))

    def to_json(self) -> dict[str, JSON]:
        return dict(self.configuration)

    def __hash__(self) -> int:
        return hash((self.name, len(self.configuration)))

    def compress(self, array: AnyArray) -> Buffer:
        parameters = {**self.configuration}
        if parameters.get("delta_spec") == "no_op":
            # An earlier name of "none" in the library.
            parameters["delta_spec"] = "none"
        encoded: bytes = import_module("numcodecs.pcodec").PCodec(**parameters).encode(array)
        return encoded

    def decompress(self, data: bytes, size: int, dtype: np.dtype[Any]) -> AnyArray:
        flat: AnyArray = np.empty(size, dtype)
        progress = import_library(self).standalone.simple_decompress_into(data, flat)
        if progress.n_processed != size or not progress.finished:
            raise CodecError(f"the data do not hold {size} elements of {dtype}", codec=self.name)
        return flat


@register_codec
@dataclass(frozen=True)
class NumcodecsZfpyCodec(FieldsCodec, NumbersCodec):
    """The codec `numcodecs.zfpy`: arrays of one to four dimensions in zfp's format with its header.

    Attributes:
        mode: 2 fixed rate, 3 fixed precision, 4 fixed accuracy.
        tolerance: the largest error; -1 or 0 for no bound.
        rate: bits per element.
        precision: stored bits of each element.
    """

    name = "numcodecs.zfpy"
    numcodecs_id = "zfpy"
    library = "zfpy"
    types = frozenset(("i4", "i8", "f4", "f8"))
    mode: int = 4
    tolerance: float = -1
    rate: float = -1
    precision: int = -1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        known = ("mode", "tolerance", "rate", "precision", "compression_kwargs")
        check_members(configuration, known, name=cls.name)
        mode = one_of(configuration, "mode", _ZFP_MODES, 4)
        import_library(cls)
        return cls(
            mode=mode,
            tolerance=number(configuration, "tolerance", -1),
            rate=number(configuration, "rate", -1),
            precision=integer(configuration, "precision", -1, 64, -1),
        )

    def resolve(self, spec: ArraySpec) -> None:
        super().resolve(spec)
        if len(spec.shape) > 4:
            raise InvalidMetadataError(f"zfp takes at most 4 dimensions, not {len(spec.shape)}")

    def max_encoded_size(self, spec: ArraySpec) -> int:
        per_block: int = 4 ** max(1, len(spec.shape))
        blocks = _count_blocks(spec.shape)
        rate = max(8 * spec.dtype.itemsize + 2, min(_MAX_RATE, self.rate) if self.mode == 2 else 0)
        return int(blocks * (per_block * rate + 256)) // 8 + _ZFP_SLACK

    def compress(self, array: AnyArray) -> Buffer:
        key = _ZFP_MODES[self.mode]
        encoded: bytes = import_library(self).compress_numpy(
            array.reshape(array.shape or (1,)), write_header=True, **{key: getattr(self, key)}
        )
        return encoded

    def decompress(self, data: bytes, size: int, dtype: np.dtype[Any]) -> AnyArray:
        library = import_library(self)
        header = library.header(data.ljust(_ZFP_HEADER, b"\0"))
        lengths = [int(header[key]) for key in ("nx", "ny", "nz", "nw") if header[key]]
        told, blocks = prod(lengths), _count_blocks(lengths)
        if told != size or not lengths or np.dtype(header["type"]) != dtype:
            message = f"it declares {told} elements of {shown(header['type'])}, expected {size} of {dtype}"
            raise CodecError(message, codec=self.name)
        # The library reads past the end of truncated data, so the data are padded with zeros up to the bound.
        per_block = 4 ** len(lengths)
        limits = header["config"].get("expert") or {}
        demanded = int(limits.get("minbits", 0))
        if demanded > per_block * _MAX_RATE + 256:
            raise CodecError(f"it declares {demanded} bits for a block of {per_block} elements", codec=self.name)
        bits = max(demanded, per_block * (8 * dtype.itemsize + 2) + 256)
        padded = data.ljust(_ZFP_HEADER + _ZFP_SLACK + -(-blocks * bits // 8), b"\0")
        decoded: AnyArray = library.decompress_numpy(padded)
        return decoded.reshape(-1)


def _count_blocks(shape: Iterable[int]) -> int:
    return prod(-(-length // 4) for length in shape)


def _numbers(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.int64).newbyteorder(dtype.byteorder) if dtype.kind in _TIMES else dtype
