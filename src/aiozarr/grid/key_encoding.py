"""Chunk key encodings: the mapping of chunk coordinates to store keys (v3 core specification, "Chunk key encoding")."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from aiozarr.errors import InvalidMetadataError
from aiozarr.plugins import ClassRegistry, NamedConfiguration, check_members

_POINT = "chunk_key_encoding"

# By separator and number of dimensions, at most the 64 of numpy. One formatting operation takes a third of the time of
# joining the numbers.
_DEFAULT_FORMS = {each: ["c" + f"{each}%d" * ndim for ndim in range(65)] for each in "/."}
_V2_FORMS = {each: ["0", *[each.join(["%d"] * ndim) for ndim in range(1, 65)]] for each in "/."}

EncodingClass = TypeVar("EncodingClass", bound="type[ChunkKeyEncoding]")


class ChunkKeyEncoding(ABC):
    """A one-to-one mapping of chunk coordinates to keys (v3 core specification, "Chunk key encoding").

    Attributes:
        name: the name in metadata documents.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding of an array of `ndim` dimensions from the `configuration` member.

        Raises:
            InvalidMetadataError: the configuration is invalid; `member` is the path from the document.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the `configuration` member."""

    @abstractmethod
    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk with the relative key `key`, or None if no chunk has this key.

        The default implementation reads the decimal numbers in the key, in order. Other encodings override it, so that
        a resize finds their chunks in listings.
        """
        numbers = re.findall("[0-9]+", key)[-ndim:] if ndim else []
        if len(numbers) != ndim or any(len(number) > 19 for number in numbers):
            return None
        coords = tuple(map(int, numbers))
        return coords if self.encode(coords) == key else None


@dataclass(frozen=True, slots=True)
class _SeparatedEncoding(ChunkKeyEncoding):
    """An encoding with `/` or `.` between the coordinates."""

    separator_by_default: ClassVar[str]
    _forms: ClassVar[Mapping[str, list[str]]]
    separator: str

    def __post_init__(self) -> None:
        if self.separator not in ("/", "."):
            raise ValueError(f"the separator of chunk keys must be '/' or '.', not {self.separator!r}")

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding from `{"separator": "/"}` or `{"separator": "."}`; the member is optional.

        Raises:
            InvalidMetadataError: any other separator; `/../`, for example, would leave the array.
        """
        check_members(configuration, ("separator",), point=_POINT, name=cls.name)
        separator = configuration.get("separator", cls.separator_by_default)
        if not isinstance(separator, str) or separator not in ("/", "."):
            raise InvalidMetadataError("expected '/' or '.'", member=f"{_POINT}.configuration.separator")
        return cls(separator)

    def to_json(self) -> dict[str, Any]:
        """Return `{"separator": ...}`, also for the default, so that readers need not know it."""
        return {"separator": self.separator}

    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""
        numbers = coords if type(coords) is tuple else tuple(coords)
        return self._forms[self.separator][len(numbers)] % numbers


class DefaultKeyEncoding(_SeparatedEncoding):
    """The encoding `default`: `c/1/23/45`, and `c` for an array without dimensions. It avoids keys of documents."""

    __slots__ = ()
    name = "default"
    separator_by_default = "/"
    _forms = _DEFAULT_FORMS


class V2KeyEncoding(_SeparatedEncoding):
    """The encoding `v2`: `1.23.45`, and `0` for an array without dimensions, as in Zarr v2."""

    __slots__ = ()
    name = "v2"
    separator_by_default = "."
    _forms = _V2_FORMS


_registry: ClassRegistry[ChunkKeyEncoding] = ClassRegistry(
    _POINT, ChunkKeyEncoding, package="aiozarr.grid", modules={"key_extensions": "fanout suffix template"}
)
_registry.register(DefaultKeyEncoding)
_registry.register(V2KeyEncoding)


def register_chunk_key_encoding(encoding: EncodingClass) -> EncodingClass:
    """Register a chunk key encoding under its `name` in this process. Also a class decorator.

    A later registration of a name replaces the earlier one, for arrays that are opened after it.

    Raises:
        TypeError: `encoding` is not a concrete subclass of `ChunkKeyEncoding` with a name.
    """
    return _registry.register(encoding)


def resolve_key_encoding(config: NamedConfiguration, ndim: int) -> ChunkKeyEncoding:
    """Return the encoding that the `chunk_key_encoding` member `config` describes for an array of `ndim` dimensions.

    Raises:
        InvalidMetadataError: the configuration is invalid; `member` is the path from the document.
        UnsupportedMetadataError: an unknown name, or a package that cannot be imported.
    """
    return _registry.resolve(config.name, member=f"{_POINT}.name").from_json(config.configuration, ndim)
