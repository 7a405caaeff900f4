"""The codecs `vlen-utf8` and `vlen-bytes`: the number of elements, then each element after its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numcodecs.vlen import VLenBytes, VLenUTF8
from typing_extensions import Buffer

from aiozarr.codecs.codec import AnyArray, ArrayBytesCodec, ArraySpec, FramedCodec, byte_array, codec_errors
from aiozarr.codecs.registry import UnconfiguredCodec, register_codec, unsupported
from aiozarr.errors import CodecError

_LENGTH_BYTES = 4


class _VlenCodec(UnconfiguredCodec, FramedCodec, ArrayBytesCodec):
    """The number of elements, then the length and the bytes of each. Numbers are little-endian uint32."""

    _kinds: ClassVar[str]
    _items: ClassVar[Any]

    def resolve(self, spec: ArraySpec) -> None:
        if spec.dtype.kind not in self._kinds:
            raise unsupported(f"codec {self.name!r} encodes elements of variable length, not {spec.dtype}", self.name)

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        items = np.ascontiguousarray(array.astype(object, copy=False)).reshape(-1)
        if not items.flags.writeable:
            items = items.copy()  # numcodecs refuses read-only memory, although it does not write to it
        with codec_errors("encode the elements", self.name, TypeError, ValueError, OverflowError):
            data: bytes = self._items.encode(items)
        if len(data) > spec.max_bytes:
            raise CodecError(f"it encodes to {len(data)} bytes, of at most {spec.max_bytes}", codec=self.name)
        return data

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        memory = byte_array(data)
        if memory.size > spec.max_bytes:
            raise CodecError(f"there are {memory.size} bytes, of at most {spec.max_bytes}", codec=self.name)
        # The decoder allocates memory for this number of elements, so it is checked first.
        count = int.from_bytes(memory[:_LENGTH_BYTES].tobytes(), "little")
        if memory.size < _LENGTH_BYTES * (1 + spec.size) or count != spec.size:
            raise CodecError(f"it declares {count} elements in {memory.size} bytes, not {spec.size}", codec=self.name)
        with codec_errors("decode the elements", self.name, TypeError, ValueError, OverflowError, SystemError):
            items: AnyArray = self._items.decode(memory)
        read = _LENGTH_BYTES * (1 + spec.size) + _count_bytes(items.tolist())
        if read != memory.size and self._is_strict:
            raise CodecError(f"{memory.size - read} bytes follow the last element", codec=self.name)
        return items.astype(spec.dtype, copy=False).reshape(spec.shape)


def _count_bytes(items: list[Any]) -> int:
    """Return the number of bytes of all elements, which are texts or byte strings."""
    return len("".join(items).encode()) if items and isinstance(items[0], str) else sum(map(len, items))


@register_codec
@dataclass(frozen=True)
class VlenUtf8Codec(_VlenCodec):
    """The codec `vlen-utf8` (registry of extensions): strings in UTF-8. None is encoded as the empty string."""

    name = "vlen-utf8"
    _kinds = "TO"
    _items = VLenUTF8()


@register_codec
@dataclass(frozen=True)
class VlenBytesCodec(_VlenCodec):
    """The codec `vlen-bytes` (registry of extensions): byte strings. None is encoded as the empty string."""

    name = "vlen-bytes"
    _kinds = "O"
    _items = VLenBytes()
