"""The stages of a v2 chunk's way to bytes: each filter and compressor as a function on arrays, bounded both ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numcodecs import get_codec as get_numcodec
from numcodecs.registry import codec_registry

from aiozarr.codecs._buffers import byte_array, byte_view
from aiozarr.codecs._configuration import invalid, short
from aiozarr.codecs.base import JSON, AnyArray, ArraySpec, BytesBytesCodec
from aiozarr.codecs.numcodecs.documents import (
    JsonDocument,
    LegacyJsonDocument,
    LegacyMsgpackDocument,
    MsgpackDocument,
)
from aiozarr.codecs.numcodecs.filters import ARRAY_FILTERS, ArrayFilter
from aiozarr.codecs.numcodecs.numbers import NumbersCodec, NumcodecsPcodecCodec, NumcodecsZfpyCodec
from aiozarr.codecs.numcodecs.objects import Categorize, ObjectFilter, VariableArray, VariableBytes, VariableText
from aiozarr.codecs.registry import get_codec
from aiozarr.errors import CodecError, InvalidMetadataError, MetadataError, UnsupportedMetadataError

PREFIX = "numcodecs."

BYTES_CODEC_IDS = (
    *("blosc", "zstd", "zlib", "gzip", "bz2", "lzma", "lz4", "base64", "shuffle"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
)
"""The ids of numcodecs that make bytes of bytes: each is the codec `numcodecs.<id>`."""

OBJECT_FILTERS: Mapping[str, type[ObjectFilter]] = {
    kind.filter_id: kind
    for kind in (
        *(VariableText, VariableBytes, VariableArray, Categorize),
        *(JsonDocument, LegacyJsonDocument, MsgpackDocument, LegacyMsgpackDocument),
    )
}

_NUMBERS: Mapping[str, type[NumbersCodec]] = {
    kind.numcodecs_id: kind for kind in (NumcodecsPcodecCodec, NumcodecsZfpyCodec)
}
_BYTE = np.dtype(np.uint8)
_UNSAFE = "pickle"


@dataclass(frozen=True)
class Extent:
    """How large a value is between two stages.

    Attributes:
        count: number of elements, of the array that the first stage takes.
        item_size: bytes of an item.
        exact: bytes of the value; None where they vary.
        bound: bytes that the value has at most.
        dtype: the type of its items; None where it is bytes.
    """

    count: int
    item_size: int
    exact: int | None
    bound: int
    dtype: np.dtype[Any] | None

    def as_bytes(self, exact: int | None, bound: int) -> Extent:
        """Return the extent of bytes that stand for this value."""
        return Extent(self.count, 1, exact, bound, None)


class Stage(ABC):
    """One filter or compressor."""

    name: str
    takes_objects = False

    @abstractmethod
    def measure(self, extent: Extent) -> Extent:
        """Return the extent of the encoding of a value of `extent`."""

    @abstractmethod
    def encode(self, value: AnyArray) -> AnyArray:
        """Return the encoding of a C-contiguous array."""

    @abstractmethod
    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        """Return the decoding of an array; `extent` is that of the result.

        Raises:
            CodecError: it is no encoding, or decodes to more than the bound.
        """


@dataclass(frozen=True)
class BytesStage(Stage):
    """A bytes -> bytes codec on the memory of arrays."""

    codec: BytesBytesCodec

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.codec.name

    def measure(self, extent: Extent) -> Extent:
        exact = None if extent.exact is None else self.codec.compute_encoded_size(extent.exact)
        return extent.as_bytes(exact, self.codec.max_encoded_size(extent.bound))

    def encode(self, value: AnyArray) -> AnyArray:
        return byte_array(self.codec.for_items(value.dtype.itemsize).encode(byte_view(value)))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        codec = self.codec.for_items(extent.item_size)
        return byte_array(codec.decode(byte_view(value), max_size=extent.bound))


@dataclass(frozen=True)
class ArrayStage(Stage):
    """A filter of arrays, on the memory of arrays of any type: it is seen as the type that the filter wants."""

    id: str
    configuration: Mapping[str, JSON]
    filter: ArrayFilter | None

    @property
    def name(self) -> str:  # type: ignore[override]
        return PREFIX + self.id

    def measure(self, extent: Extent) -> Extent:
        filter_ = self._filter(extent.dtype)
        decoded, encoded = filter_.decoded_type.itemsize, filter_.encoded_type.itemsize
        exact = None if extent.exact is None else filter_.encoded_length(extent.exact // decoded) * encoded
        bound = filter_.encoded_length(extent.bound // decoded) * encoded
        return Extent(extent.count, encoded, exact, bound, filter_.encoded_type)

    def encode(self, value: AnyArray) -> AnyArray:
        filter_ = self._filter(value.dtype)
        try:
            with np.errstate(all="ignore"):
                return np.ascontiguousarray(filter_.encode(_view(value, filter_.decoded_type)))
        except (TypeError, ValueError, OverflowError) as error:
            raise CodecError(f"cannot encode: {error}", codec=self.name) from error

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        filter_ = self._filter(extent.dtype)
        try:
            flat = _view(value, filter_.encoded_type)
            size = filter_.decoded_length(flat.size) * filter_.decoded_type.itemsize
            if size > extent.bound + filter_.decoded_type.itemsize * 8:
                raise CodecError(f"it decodes to {size} bytes, of at most {extent.bound}", codec=self.name)
            with np.errstate(all="ignore"):
                return np.ascontiguousarray(filter_.decode(flat))
        except (TypeError, ValueError, OverflowError) as error:
            raise CodecError(f"cannot decode: {error}", codec=self.name) from error

    def _filter(self, dtype: np.dtype[Any] | None) -> ArrayFilter:
        if self.filter is not None:
            return self.filter
        return ARRAY_FILTERS[self.id].from_json(self.configuration, _BYTE if dtype is None else dtype)


@dataclass(frozen=True)
class ObjectStage(Stage):
    """An object codec: it makes bytes of elements of any type."""

    filter: ObjectFilter
    takes_objects = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return PREFIX + self.filter.filter_id

    def measure(self, extent: Extent) -> Extent:
        exact = extent.count * self.filter.astype.itemsize if isinstance(self.filter, Categorize) else None
        if exact is not None:
            return extent.as_bytes(exact, exact)
        # Numbers and text of fixed length grow where they are written out.
        bound = extent.bound if extent.exact is None else 4 * extent.bound + 128 * extent.count + 65536
        return extent.as_bytes(None, bound)

    def encode(self, value: AnyArray) -> AnyArray:
        return byte_array(self.filter.encode(value))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        bound = extent.bound
        if extent.exact is not None:
            # Numbers and text of fixed length are objects on their way.
            bound = 4 * bound + 512 * extent.count + 65536
        return self.filter.decode(byte_view(value), extent.count, bound)


@dataclass(frozen=True)
class NumbersStage(Stage):
    """A codec of numbers, which has to know their type, and may use their shape."""

    codec: NumbersCodec

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.codec.name

    def measure(self, extent: Extent) -> Extent:
        if extent.dtype is None or not self.codec.takes(extent.dtype):
            raise InvalidMetadataError(f"codec {self.name!r} does not take {extent.dtype or 'bytes'}")
        return extent.as_bytes(None, 4 * extent.bound + 65536)

    def encode(self, value: AnyArray) -> AnyArray:
        return byte_array(self.codec.encode(value, ArraySpec(value.shape, value.dtype, value)))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        dtype = extent.dtype or _BYTE
        count = extent.bound // dtype.itemsize
        return self.codec.decode(byte_view(value), ArraySpec((count,), dtype, value))


class ForeignStage(Stage):
    """A codec that some package has registered with numcodecs. What it makes is bounded after it was made."""

    takes_objects = True

    def __init__(self, name: str, codec: Any) -> None:
        self.name = name
        self._codec = codec

    def measure(self, extent: Extent) -> Extent:
        return extent.as_bytes(None, 2 * extent.bound + 65536)

    def encode(self, value: AnyArray) -> AnyArray:
        return self._array(self._call("encode", value))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        decoded = self._array(self._call("decode", byte_array(byte_view(value))))
        if not decoded.dtype.hasobject and decoded.nbytes > extent.bound:
            raise CodecError(f"it decodes to {decoded.nbytes} bytes, of at most {extent.bound}", codec=self.name)
        return decoded

    def _call(self, method: str, value: AnyArray) -> Any:
        try:
            return getattr(self._codec, method)(value)
        except Exception as error:  # whatever a stranger's code raises about a stranger's bytes
            raise CodecError(f"cannot {method}: {short(str(error))}", codec=self.name) from error

    def _array(self, value: Any) -> AnyArray:
        array: AnyArray = value if isinstance(value, np.ndarray) else byte_array(memoryview(value).cast("B"))
        if array.dtype.hasobject and array.dtype != object:
            raise CodecError(f"it makes {array.dtype}", codec=self.name)
        # As numcodecs sees what is passed on: the elements in the order in which they lie.
        return np.ascontiguousarray(array.reshape(-1, order="A"))


def build_stage(config: Mapping[str, JSON]) -> Stage:
    """Return the stage of a numcodecs configuration.

    Raises:
        InvalidMetadataError: it is none, or not a valid one.
        UnsupportedMetadataError: nothing is registered with numcodecs by this id, or it is pickle.
    """
    name = config.get("id")
    if not isinstance(name, str) or not name:
        raise invalid("id", f"a numcodecs configuration needs an id, not {short(name)}")
    refuse_pickle(config)
    rest = {key: value for key, value in config.items() if key != "id"}
    if name in BYTES_CODEC_IDS:
        codec = get_codec(PREFIX + name).from_json(_numcodecs_defaults(name, rest))
        return BytesStage(cast("BytesBytesCodec", codec))
    if name in ARRAY_FILTERS:
        # Numcodecs itself takes the type of bitround from the array.
        kind = ARRAY_FILTERS[name]
        return ArrayStage(name, rest, None if name == "bitround" else kind.from_json(rest, None))
    if name in _NUMBERS:
        return NumbersStage(_NUMBERS[name].from_json(rest))
    if name in OBJECT_FILTERS:
        return ObjectStage(OBJECT_FILTERS[name].from_json(rest))
    return _foreign(name, config)


def refuse_pickle(config: object) -> None:
    """Check that no part of a configuration names pickle, in any spelling: it would run code that a stranger wrote.

    Raises:
        UnsupportedMetadataError: it does.
    """
    left = [config]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            name = part.get("id")
            if isinstance(name, str) and _UNSAFE in name.casefold():
                raise UnsupportedMetadataError(
                    f"the codec {name[:200]!r} is never used: reading it would run code from the store",
                    member="id",
                    point="codec",
                    name=name[:200],
                )
            left.extend(part.values())
        elif isinstance(part, (list, tuple)):
            left.extend(part)


def _numcodecs_defaults(name: str, configuration: Mapping[str, JSON]) -> Mapping[str, JSON]:
    # In v3 an absent size means that of the array's items; numcodecs itself has a number.
    return {"elementsize": 4, **configuration} if name == "shuffle" else configuration


def _foreign(name: str, config: Mapping[str, JSON]) -> Stage:
    try:
        codec: Any = get_numcodec(dict(config))
    except MetadataError:
        raise
    except Exception as error:  # a stranger's constructor may raise anything about its parameters
        if name in codec_registry:
            raise invalid("id", f"{name!r} does not take these parameters: {short(str(error))}") from error
        raise UnsupportedMetadataError(
            f"unknown numcodecs codec {name[:200]!r}: another one is registered with numcodecs.register_codec, or by "
            f"an installed package with an entry point in the group 'numcodecs.codecs'",
            member="id",
            point="codec",
            name=name[:200],
        ) from error
    refuse_pickle({"id": str(getattr(codec, "codec_id", name))})
    return ForeignStage(PREFIX + name, codec)


def _view(value: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    if value.nbytes % dtype.itemsize:
        raise ValueError(f"{value.nbytes} bytes are not a number of elements of {dtype}")
    if value.dtype.hasobject:
        raise TypeError("objects have no bytes of their own")
    return np.ascontiguousarray(value).reshape(-1).view(dtype)
