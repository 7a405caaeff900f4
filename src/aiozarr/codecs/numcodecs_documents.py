"""The object codecs `json2` and `msgpack2`, and the older `json` and `msgpack`: elements as one nested document.

The document is a list of the elements, nested by dimension, the type, and the shape, which the older codecs omit.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.codec import JSON, AnyArray, codec_errors
from aiozarr.codecs.numcodecs_objects import ObjectFilter, check_memory, is_object_type, simple_type
from aiozarr.codecs.registry import CHECKS, check_members, import_library, invalid
from aiozarr.common.checks import is_integer
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError, MetadataError

_MAX_DEPTH = 200
"""The most levels of nested lists and objects, as in metadata documents."""
_MAX_DIMENSIONS = 64
_MAX_INDENT = 32
_ITEM_BYTES = 64
_MAPPING_BYTES = 256
_NUMBER_BYTES = 24
_OBJECT = np.dtype(object)
_ENCODINGS = ("utf-8", "utf8", "ascii", "latin-1", "utf-16", "utf-32")


class _DocumentFilter(ObjectFilter):
    """A list of nested elements, the type, and the shape."""

    tells_shape = True

    @abstractmethod
    def _dump(self, items: list[Any]) -> Buffer: ...

    @abstractmethod
    def _load(self, data: bytes) -> Any: ...

    @abstractmethod
    def _estimate(self, data: bytes) -> int:
        """Return an upper estimate of the bytes in memory of the objects in `data`, without decoding them."""

    def encode(self, array: AnyArray) -> Buffer:
        items: list[Any] = np.atleast_1d(array).tolist()
        items.append(array.dtype.str)
        if self.tells_shape:
            items.append(list(array.shape))
        with codec_errors("encode", self.filter_id, TypeError, ValueError, OverflowError, RecursionError):
            return self._dump(items)

    def decode(self, data: Buffer, size: int, max_bytes: int) -> AnyArray:
        document = bytes(data)
        check_memory(self._estimate(document), max_bytes, self.filter_id)
        with codec_errors("decode", self.filter_id, ValueError, RecursionError, MemoryError):
            items = self._load(document)
        tail = 2 if self.tells_shape else 1
        if not isinstance(items, list) or len(items) < tail:
            raise CodecError("the document is not a list of elements and their type", codec=self.filter_id)
        told = items[len(items) - tail]
        elements = items[: len(items) - tail]
        try:
            dtype = _OBJECT if is_object_type(told) else simple_type(told, "dtype")
        except MetadataError as error:
            raise CodecError(f"{shown(told)} is not a type of elements", codec=self.filter_id) from error
        if size * dtype.itemsize > max_bytes:
            raise CodecError(f"{size} elements of {dtype} exceed {max_bytes} bytes", codec=self.filter_id)
        flat = self._flatten(elements, self._shape(items[-1], size) if self.tells_shape else None, size)
        return self._array(flat, dtype)

    def _shape(self, told: Any, size: int) -> tuple[int, ...]:
        if not isinstance(told, list) or not all(is_integer(length) and 0 <= length <= size for length in told):
            raise CodecError(f"{shown(told)} is not a shape of {size} elements", codec=self.filter_id)
        if len(told) > _MAX_DIMENSIONS or prod(told) != size:
            raise CodecError(f"the shape {shown(told)} does not have {size} elements", codec=self.filter_id)
        return tuple(told)

    def _flatten(self, elements: list[Any], shape: tuple[int, ...] | None, size: int) -> list[Any]:
        """Return the elements without nesting: by `shape`, or by as many levels as `size` elements need."""
        level = elements
        if shape is None:
            while len(level) < size and all(isinstance(row, list) for row in level):
                level = [item for row in level for item in row]
        else:
            for length in shape[1:]:
                if not all(isinstance(row, list) and len(row) == length for row in level):
                    raise CodecError(f"the elements do not have the shape {list(shape)}", codec=self.filter_id)
                level = [item for row in level for item in row]
        if len(level) != size:
            raise CodecError(f"there are {len(level)} elements, expected {size}", codec=self.filter_id)
        return level

    def _array(self, flat: Sequence[Any], dtype: np.dtype[Any]) -> AnyArray:
        array: AnyArray = np.empty(len(flat), dtype)
        try:
            for i, element in enumerate(flat):
                array[i] = element
        except (TypeError, ValueError, OverflowError) as error:
            raise CodecError(
                f"the values are not elements of {dtype}: {shown(str(error))}", codec=self.filter_id
            ) from error
        return array


@dataclass(frozen=True)
class JsonDocument(_DocumentFilter):
    """The codec `json2`: a JSON text."""

    filter_id = "json2"
    encoding: str = "utf-8"
    skipkeys: bool = False
    ensure_ascii: bool = True
    check_circular: bool = True
    allow_nan: bool = True
    sort_keys: bool = True
    indent: int | str | None = None
    separators: tuple[str, str] | None = None
    strict: bool = True

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        flags = ("skipkeys", "ensure_ascii", "check_circular", "allow_nan", "sort_keys", "strict")
        check_members(configuration, (*flags, "encoding", "indent", "separators"), name=cls.filter_id)
        given: dict[str, Any] = {key: CHECKS.boolean(configuration[key], key) for key in flags if key in configuration}
        encoding, indent = configuration.get("encoding", "utf-8"), configuration.get("indent")
        if not isinstance(encoding, str) or encoding.lower() not in _ENCODINGS:
            raise invalid("encoding", f"it must be one of {', '.join(_ENCODINGS)}, not {shown(encoding)}")
        spaces = indent if isinstance(indent, int) else len(indent) if isinstance(indent, str) else 0
        if not isinstance(indent, (int, str, type(None))) or not 0 <= spaces <= _MAX_INDENT:
            raise invalid("indent", f"it must be null or at most 32 spaces, not {shown(indent)}")
        separators = configuration.get("separators")
        if separators is not None:
            if not isinstance(separators, list) or [str(part).strip() for part in separators] != [",", ":"]:
                raise invalid("separators", f"it must be a comma and a colon, not {shown(separators)}")
            separators = tuple(separators)
        return cls(encoding=encoding, indent=indent, separators=separators, **given)

    def _dump(self, items: list[Any]) -> Buffer:
        return json.dumps(
            items,
            skipkeys=self.skipkeys,
            ensure_ascii=self.ensure_ascii,
            check_circular=self.check_circular,
            allow_nan=self.allow_nan,
            sort_keys=self.sort_keys,
            indent=self.indent,
            separators=self.separators or ((",", ":") if self.indent is None else (", ", ": ")),
        ).encode(self.encoding)

    def _load(self, data: bytes) -> Any:
        items = json.loads(data.decode(self.encoding), strict=self.strict)
        # The depth limit of the parser differs between releases of Python, and encoding the elements again recurses.
        if data.count(b"[") + data.count(b"{") > _MAX_DEPTH:
            _check_depth(items)
        return items

    def _estimate(self, data: bytes) -> int:
        return len(data) + _ITEM_BYTES * (data.count(b",") + data.count(b"[")) + _MAPPING_BYTES * data.count(b"{")


def _check_depth(items: Any) -> None:
    level = [items]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(item, list | dict)
        ]
        if not level:
            return
    raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")


@dataclass(frozen=True)
class LegacyJsonDocument(JsonDocument):
    """The codec `json` of numcodecs before 0.6: without the shape."""

    filter_id = "json"
    tells_shape = False


@dataclass(frozen=True)
class MsgpackDocument(_DocumentFilter):
    """The codec `msgpack2`: a MessagePack document."""

    filter_id = "msgpack2"
    library = "msgpack"
    use_single_float: bool = False
    use_bin_type: bool = True
    raw: bool = False

    @classmethod
    def _library(cls) -> Any:
        return import_library(cls, name=cls.filter_id, member="id")

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        flags = ("use_single_float", "use_bin_type", "raw", "encoding")
        check_members(configuration, flags, name=cls.filter_id)
        given = {key: CHECKS.boolean(configuration[key], key) for key in flags[:3] if key in configuration}
        cls._library()
        return cls(**given)

    def _dump(self, items: list[Any]) -> Buffer:
        packb = self._library().packb
        packed: bytes = packb(items, use_bin_type=self.use_bin_type, use_single_float=self.use_single_float)
        return packed

    def _load(self, data: bytes) -> Any:
        items = self._library().unpackb(data, raw=self.raw)
        if self.raw and isinstance(items, list):
            # Text of the format was decoded as bytes, the type included.
            items = [*items[:-2], *(part.decode() if isinstance(part, bytes) else part for part in items[-2:])]
        return items

    def _estimate(self, data: bytes) -> int:
        # Bytes of this range start short lists and mappings, the densest values.
        containers = int(np.count_nonzero((np.frombuffer(data, np.uint8) & 0xE0) == 0x80))
        return _NUMBER_BYTES * len(data) + _ITEM_BYTES * containers


@dataclass(frozen=True)
class LegacyMsgpackDocument(MsgpackDocument):
    """The codec `msgpack` of numcodecs before 0.6: without the shape."""

    filter_id = "msgpack"
    tells_shape = False
