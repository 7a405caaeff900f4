"""The codecs `numcodecs.shuffle` and `numcodecs.base64`: bytes in another order, or as text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.core.buffers import byte_array, byte_view
from aiozarr.codecs.core.codec import JSON, AnyArray, BytesBytesCodec
from aiozarr.codecs.core.configuration import UnconfiguredCodec, check_members
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numcodecs.parameters import optional_integer
from aiozarr.errors import CodecError

_MAX_ITEM = 1 << 31


@register
@dataclass(frozen=True)
class NumcodecsShuffleCodec(BytesBytesCodec):
    """The codec `numcodecs.shuffle`: the first bytes of all items, then their second bytes, and so on.

    Attributes:
        elementsize: bytes of an item. None means the item size of the array, as in zarr-python 3. With 0 and 1 the
            bytes do not change.
        item_size: bytes of the array's items, or 1 if unknown.
    """

    name = "numcodecs.shuffle"
    elementsize: int | None = None
    item_size: int = field(default=1, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("elementsize",), name=cls.name)
        if configuration.get("elementsize") is None:
            return cls()
        return cls(optional_integer(configuration, "elementsize", 0, 0, _MAX_ITEM))

    def to_json(self) -> dict[str, JSON]:
        return {} if self.elementsize is None else {"elementsize": self.elementsize}

    def for_items(self, item_size: int) -> Self:
        return replace(self, item_size=max(1, item_size))

    def encode(self, data: Buffer) -> Buffer:
        size = self._element_size(data)
        return data if size == 1 else byte_view(np.ascontiguousarray(byte_array(data).reshape(-1, size).T))

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        nbytes = memoryview(data).nbytes
        if nbytes > max_size:
            raise CodecError(f"there are {nbytes} bytes, of at most {max_size}", codec=self.name)
        size = self._element_size(data)
        if size == 1:
            return data
        planes: AnyArray = byte_array(data).reshape(size, -1).T
        if out is None or len(out) != nbytes:
            return byte_view(np.ascontiguousarray(planes))
        np.copyto(np.asarray(out).reshape(planes.shape), planes)
        return out

    def compute_encoded_size(self, size: int) -> int:
        return size

    def _element_size(self, data: Buffer) -> int:
        size = self.item_size if self.elementsize is None else max(1, self.elementsize)
        nbytes = memoryview(data).nbytes
        if nbytes % size:
            raise CodecError(f"{nbytes} bytes are not a multiple of the element size {size}", codec=self.name)
        return size if nbytes else 1


@register
@dataclass(frozen=True)
class NumcodecsBase64Codec(UnconfiguredCodec, BytesBytesCodec):
    """The codec `numcodecs.base64`: the standard alphabet of RFC 4648, padded, without line breaks."""

    name = "numcodecs.base64"

    def encode(self, data: Buffer) -> Buffer:
        return base64.b64encode(data)

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        size = memoryview(data).nbytes
        if size > self.compute_encoded_size(max_size):
            raise CodecError(f"{size} bytes decode to more than {max_size}", codec=self.name)
        try:
            decoded = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CodecError(f"cannot decode: {error}", codec=self.name) from error
        if len(decoded) > max_size:
            raise CodecError(f"it decodes to {len(decoded)} bytes, of at most {max_size}", codec=self.name)
        return decoded

    def compute_encoded_size(self, size: int) -> int:
        return -(-size // 3) * 4
