"""A chunk key encoding turns chunk coordinates into the key, below its array, that the chunk is stored under."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from aiozarr.errors import InvalidMetadataError
from aiozarr.grid._configuration import NamedConfiguration, check_members
from aiozarr.plugins import check_class, load_class, unknown

_POINT = "chunk_key_encoding"

# One formatting operation for a whole key takes a third of the time that joining its numbers takes. By separator and
# number of dimensions: numpy has at most 64.
_DEFAULT_FORMS = {each: ["c" + f"{each}%d" * ndim for ndim in range(65)] for each in "/."}
_V2_FORMS = {each: ["0", *[each.join(["%d"] * ndim) for ndim in range(1, 65)]] for each in "/."}

EncodingClass = TypeVar("EncodingClass", bound="type[ChunkKeyEncoding]")


class ChunkKeyEncoding(ABC):
    """A one-to-one mapping from chunk coordinates to keys (v3 core specification, `chunk_key_encoding`)."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding of an array of `ndim` dimensions from the `configuration` member.

        Raises:
            InvalidMetadataError: with `member` counted from the document.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the `configuration` member."""

    @abstractmethod
    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk that has `key`, relative to the array; None where no chunk has it.

        Here for keys that have the coordinates as decimal numbers in order: they are tried, and the key made again from
        them. Encodings of other keys override it; else a resize does not find their chunks in listings.
        """
        numbers = re.findall("[0-9]+", key)[-ndim:] if ndim else []
        if len(numbers) != ndim or any(len(number) > 19 for number in numbers):
            return None
        coords = tuple(map(int, numbers))
        return coords if self.encode(coords) == key else None


@dataclass(frozen=True, slots=True)
class _SeparatedEncoding(ChunkKeyEncoding):
    separator_by_default: ClassVar[str]
    separator: str

    def __post_init__(self) -> None:
        if self.separator not in ("/", "."):
            raise ValueError(f"the separator of chunk keys is '/' or '.', not {self.separator!r}")

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding from `{"separator": "/" or "."}`; the member is optional.

        Raises:
            InvalidMetadataError: any other separator: one such as `/../` would lead out of the array.
        """
        check_members(configuration, ("separator",), point=_POINT, name=cls.name)
        separator = configuration.get("separator", cls.separator_by_default)
        if not isinstance(separator, str) or separator not in ("/", "."):
            raise InvalidMetadataError("the separator is '/' or '.'", member=f"{_POINT}.configuration.separator")
        return cls(separator)

    def to_json(self) -> dict[str, Any]:
        """Return `{"separator": ...}`, written out even where it is the default: readers need not know defaults."""
        return {"separator": self.separator}


@dataclass(frozen=True, slots=True)
class DefaultKeyEncoding(_SeparatedEncoding):
    """`c/1/23/45`, and `c` where there are no dimensions: chunks never share a key with a metadata document."""

    name: ClassVar[str] = "default"
    separator_by_default: ClassVar[str] = "/"
    separator: str = "/"

    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""
        numbers = coords if type(coords) is tuple else tuple(coords)
        return _DEFAULT_FORMS[self.separator][len(numbers)] % numbers


@dataclass(frozen=True, slots=True)
class V2KeyEncoding(_SeparatedEncoding):
    """`1.23.45`, and `0` where there are no dimensions: the keys of Zarr v2."""

    name: ClassVar[str] = "v2"
    separator_by_default: ClassVar[str] = "."
    separator: str = "."

    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""
        numbers = coords if type(coords) is tuple else tuple(coords)
        return _V2_FORMS[self.separator][len(numbers)] % numbers


_ENCODINGS: dict[str, type[ChunkKeyEncoding]] = {each.name: each for each in (DefaultKeyEncoding, V2KeyEncoding)}


def register_chunk_key_encoding(encoding: EncodingClass) -> EncodingClass:
    """Make `encoding` the chunk key encoding of its `name`, in this process; also a class decorator.

    A name that is taken is replaced: the last registration holds, for arrays opened after it.

    Raises:
        TypeError: it is no concrete subclass of `ChunkKeyEncoding` with a name.
    """
    check_class(encoding, ChunkKeyEncoding)
    _ENCODINGS[encoding.name] = encoding
    return encoding


def resolve_key_encoding(config: NamedConfiguration, ndim: int) -> ChunkKeyEncoding:
    """Return the encoding that the `chunk_key_encoding` member `config` describes for an array of `ndim` dimensions.

    Raises:
        InvalidMetadataError: the configuration does not fit; `member` is counted from the document.
        UnsupportedMetadataError: there is no encoding of that name, or its package cannot be used.
    """
    encoding = _ENCODINGS.get(config.name)
    if encoding is None:
        encoding = load_class(_POINT, config.name, ChunkKeyEncoding)
    if encoding is None:
        raise unknown(_POINT, config.name, _ENCODINGS, member=f"{_POINT}.name")
    return encoding.from_json(config.configuration, ndim)
