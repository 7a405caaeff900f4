"""Chunk key encodings of the registry of extensions: `fanout`, `suffix` and `template`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid.key_encoding import ChunkKeyEncoding, register_chunk_key_encoding, resolve_key_encoding
from aiozarr.plugins import check_members

_POINT = "chunk_key_encoding"
_CONFIGURATION = "chunk_key_encoding.configuration"
MAX_DEPTH = 8
"""Maximum number of nested encodings."""
MAX_LENGTH = 512
"""Maximum number of characters that a metadata document may add to each key."""


@register_chunk_key_encoding
@dataclass(frozen=True, slots=True)
class FanoutKeyEncoding(ChunkKeyEncoding):
    """The encoding `fanout`: `d0/1/23/d1/5/c`. Digits of coordinates are folders of at most `max_children` entries."""

    name: ClassVar[str] = "fanout"
    max_children: int = 1001

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding from `{"max_children": ...}`; the member is optional.

        Raises:
            InvalidMetadataError: `max_children` is not an integer greater than 3.
        """
        check_members(configuration, ("max_children",), point=_POINT, name=cls.name)
        children = configuration.get("max_children", 1001)
        if type(children) is not int or children <= 3:
            raise InvalidMetadataError("expected an integer greater than 3", member=f"{_CONFIGURATION}.max_children")
        return cls(children)

    def to_json(self) -> dict[str, Any]:
        """Return `{"max_children": ...}`."""
        return {"max_children": self.max_children}

    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""
        parts: list[str] = []
        for dimension, coordinate in enumerate(coords):
            parts += [f"d{dimension}", *map(str, self._digits(coordinate))]
        return "/".join([*parts, "c"])

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk that has this key, or None if no chunk has this key."""
        coords: list[int] = []
        for part in key.split("/")[:-1]:
            if part == f"d{len(coords)}":
                coords.append(0)
            elif coords and re.fullmatch("[0-9]{1,19}", part):
                coords[-1] = coords[-1] * (self.max_children - 1) + int(part)
            else:
                return None
        return tuple(coords) if len(coords) == ndim and self.encode(coords) == key else None

    def _digits(self, coordinate: int) -> list[int]:
        """Return the digits of a coordinate in base `max_children - 1`: a folder may contain `c` as well."""
        digits: list[int] = []
        while coordinate or not digits:
            coordinate, digit = divmod(coordinate, self.max_children - 1)
            digits.append(digit)
        return digits[::-1]


@register_chunk_key_encoding
@dataclass(frozen=True, slots=True)
class SuffixKeyEncoding(ChunkKeyEncoding):
    """The encoding `suffix`: `c/1/2.tiff`, the key of another encoding and a constant file extension."""

    name: ClassVar[str] = "suffix"
    suffix: str
    base: ChunkKeyEncoding

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding from `suffix` and `base_encoding`.

        Raises:
            InvalidMetadataError: `suffix` is not a str, is empty, or would leave the array.
            UnsupportedMetadataError: the base encoding is unknown, or nested more than eight times.
        """
        check_members(configuration, ("suffix", "base_encoding", "base-encoding"), point=_POINT, name=cls.name)
        suffix = _safe_text(configuration.get("suffix"), f"{_CONFIGURATION}.suffix")
        # The registry has both spellings, and omits the base encoding "default".
        given = configuration.get("base_encoding", configuration.get("base-encoding", "default"))
        _check_depth(given)
        base = _BaseEncoding.of(given, f"{_CONFIGURATION}.base_encoding")
        return cls(suffix, resolve_key_encoding(base, ndim))

    def to_json(self) -> dict[str, Any]:
        """Return the suffix and the base encoding."""
        return {"suffix": self.suffix, "base_encoding": {"name": self.base.name, "configuration": self.base.to_json()}}

    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""
        return self.base.encode(coords) + self.suffix

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk that has this key, or None if no chunk has this key."""
        return self.base.decode(key.removesuffix(self.suffix), ndim) if key.endswith(self.suffix) else None


@register_chunk_key_encoding
@dataclass(frozen=True, slots=True)
class TemplateKeyEncoding(ChunkKeyEncoding):
    """The encoding `template`: `images/{-1}/{*:04}.jpeg`, coordinates in a text; `{*}` stands for all others."""

    name: ClassVar[str] = "template"
    template: str
    separator: str | None
    pieces: tuple[str | tuple[tuple[int, ...], int], ...] = field(repr=False)
    """In order: texts, and pairs of dimensions and the width to pad with zeros."""

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        """Build the encoding from `{"template": ..., "separator": ...}`.

        Raises:
            InvalidMetadataError: the template is invalid, or two chunks would have the same key.
        """
        check_members(configuration, ("template", "separator"), point=_POINT, name=cls.name)
        member = f"{_CONFIGURATION}.template"
        template, separator = configuration.get("template"), configuration.get("separator")
        if not isinstance(template, str) or len(template) > MAX_LENGTH:
            raise InvalidMetadataError(f"expected a string of at most {MAX_LENGTH} characters", member=member)
        if separator is not None:
            _safe_text(separator, f"{_CONFIGURATION}.separator", may_begin_with_slash=True)
        terms = _split(template, member)
        named = [_dimension(term[0], ndim, member) for term in terms if not isinstance(term, str) and term[0] != "*"]
        rest = tuple([each for each in range(ndim) if each not in named])
        if all([isinstance(term, str) for term in terms]):
            raise InvalidMetadataError(f"{template!r} contains no coordinate", member=member)
        stars = sum([not isinstance(term, str) and term[0] == "*" for term in terms])
        if len(set(named)) != len(named) or stars > 1 or bool(rest) != bool(stars):
            raise InvalidMetadataError(f"{template!r} must contain each of the {ndim} coordinates once", member=member)
        if stars and separator is None:
            raise InvalidMetadataError("a template with {*} needs a separator", member=f"{_CONFIGURATION}.separator")
        pieces: list[str | tuple[tuple[int, ...], int]] = []
        for term in terms:
            if isinstance(term, str):
                pieces.append(term)
            else:
                pieces.append((rest if term[0] == "*" else (_dimension(term[0], ndim, member),), term[1]))
        _safe_text("".join([each if isinstance(each, str) else "0" for each in pieces]), member)
        _check_separated(pieces, separator, member)
        return cls(template, separator, tuple(pieces))

    def to_json(self) -> dict[str, Any]:
        """Return the template, and the separator if it has one."""
        return {"template": self.template, **({} if self.separator is None else {"separator": self.separator})}

    def encode(self, coords: Iterable[int]) -> str:
        """Return the key of the chunk at `coords`, relative to the array."""
        numbers = tuple(coords)
        return "".join(
            [
                piece
                if isinstance(piece, str)
                else (self.separator or "").join([str(numbers[each]).zfill(piece[1]) for each in piece[0]])
                for piece in self.pieces
            ]
        )

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk that has this key, or None if no chunk has this key."""
        number = "([0-9]{1,19})"
        between = re.escape(self.separator or "")
        pattern = "".join(
            [re.escape(p) if isinstance(p, str) else between.join([number] * len(p[0])) for p in self.pieces]
        )
        found = re.fullmatch(pattern, key)
        order = [each for piece in self.pieces if not isinstance(piece, str) for each in piece[0]]
        if found is None or len(order) != ndim:
            return None
        by_dimension = dict(zip(order, map(int, found.groups()), strict=True))
        coords = tuple([by_dimension[each] for each in range(ndim)])
        return coords if self.encode(coords) == key else None


@dataclass(frozen=True, slots=True)
class _BaseEncoding:
    name: str
    configuration: Mapping[str, Any]

    @classmethod
    def of(cls, given: Any, member: str) -> _BaseEncoding:
        """Return the base encoding that the configuration of an encoding names."""
        if isinstance(given, str):
            return cls(given, {})
        name = given.get("name") if isinstance(given, Mapping) else None
        configuration = given.get("configuration", {}) if isinstance(given, Mapping) else None
        if not isinstance(name, str) or not isinstance(configuration, Mapping):
            raise InvalidMetadataError(
                "expected a chunk key encoding, that is, a name or an object with a name", member=member
            )
        return cls(name, configuration)


def _check_depth(given: Any) -> None:
    for _ in range(MAX_DEPTH):
        configuration = given.get("configuration") if isinstance(given, Mapping) else None
        if not isinstance(configuration, Mapping):
            return
        given = configuration.get("base_encoding", configuration.get("base-encoding"))
    raise UnsupportedMetadataError(
        f"more than {MAX_DEPTH} nested chunk key encodings", member=f"{_CONFIGURATION}.base_encoding"
    )


def _safe_text(text: Any, member: str, *, may_begin_with_slash: bool = False) -> str:
    """Return `text` if it is a str that keeps keys inside the array."""
    if not isinstance(text, str) or not text or len(text) > MAX_LENGTH:
        raise InvalidMetadataError(f"expected a string of 1 to {MAX_LENGTH} characters", member=member)
    forbidden = [each for each in ("..", "\\", "\0", "//", "zarr.json") if each in text]
    if forbidden or (text.startswith("/") and not may_begin_with_slash):
        raise InvalidMetadataError(f"{forbidden[0] if forbidden else '/'!r} is not allowed here", member=member)
    return text


def _split(template: str, member: str) -> list[str | tuple[str, int]]:
    """Return the texts and terms (index or `*`, width) of a template. Doubled braces are literal braces."""
    terms: list[str | tuple[str, int]] = []
    text, at = "", 0
    for found in re.finditer(r"\{\{|\}\}|\{(\*|-?[0-9]{1,3})(?::0([1-9][0-9]?))?\}|[{}]", template):
        text += template[at : found.start()]
        at = found.end()
        if found[0] in ("{", "}"):
            raise InvalidMetadataError(
                f"the braces of {template!r} do not match at position {found.start()}", member=member
            )
        if found[1] is None:
            text += found[0][0]
            continue
        terms += [text] if text else []
        text = ""
        terms.append((found[1], int(found[2] or 0)))
    text += template[at:]
    return terms + ([text] if text else [])


def _dimension(index: str, ndim: int, member: str) -> int:
    number = int(index)
    if not -ndim <= number < ndim:
        raise InvalidMetadataError(f"an array of {ndim} dimensions has no coordinate {index}", member=member)
    return number % ndim


def _check_separated(pieces: Sequence[str | tuple[Any, int]], separator: str | None, member: str) -> None:
    """Check that a non-digit separates any two coordinates. Otherwise chunks (1, 11) and (11, 1) share a key."""
    between: list[str] = []
    previous: str | None = None
    for piece in pieces:
        if isinstance(piece, str):
            previous = None if previous is None else previous + piece
            continue
        between += [] if previous is None else [previous]
        between += [separator or ""] * (len(piece[0]) - 1)
        previous = ""
    if any(not each or each[0].isdigit() or each[-1].isdigit() for each in between):
        raise InvalidMetadataError("two coordinates must be separated by something other than a digit", member=member)
