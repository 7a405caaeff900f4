"""References as columns, of which a million take 28 MB, instead of a dictionary of a million lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import InvalidMetadataError, LimitError
from aiozarr.model import MAX_KEY_BYTES

if TYPE_CHECKING:
    from aiozarr.stores.contract import Store

MAX_REFERENCES = 1 << 27
"""References of one table that are in memory; they take 4 GB."""

ROW_BYTES = 28
"""Bytes that a reference takes in columns."""

WHOLE = -1
"""A value in the column of lengths: the reference is to a whole object."""
MISSING = -1
"""A value in the column of objects: there is no such reference."""

_MAX_BYTES = 2**63 - 1
_COORDINATE = r"(?:0|[1-9]\d{0,8})"
# Before the coordinates, a run of numbers is skipped as a whole, so that the time stays linear in the length of a key.
_CHUNK_KEY = re.compile(
    rf"((?:(?:{_COORDINATE}/)++|(?!{_COORDINATE}/)[^/]*+/)*?(?:c[./])?)"
    rf"({_COORDINATE}(?:([./]){_COORDINATE}(?:\3{_COORDINATE})*)?)"
)


Target: TypeAlias = "str | tuple[Store, str]"
"""An object that references name: its URL, or its store and key."""


class Reference(NamedTuple):
    """Bytes of another object that are the value of a key.

    Attributes:
        target: the URL of the object, as the table names it, or its store and key.
        start: the first byte.
        length: the number of bytes, or None for all of the object.
    """

    target: Target
    start: int
    length: int | None


class KeyFamily(NamedTuple):
    """Keys that differ in their chunk coordinates only.

    Attributes:
        prefix: the text before the coordinates, such as `t2m/` or `t2m/c/`.
        separator: the text between coordinates; empty for one coordinate.
        dimensions: the number of coordinates.
    """

    prefix: str
    separator: str
    dimensions: int


def split_chunk_key(key: str) -> tuple[KeyFamily, str] | None:
    """Return the family of a key and the text of its coordinates; None if the key ends with no coordinates."""
    match = _CHUNK_KEY.fullmatch(key) if len(key) <= MAX_KEY_BYTES else None
    if match is None:
        return None
    prefix, text, separator = match.groups(default="")
    return KeyFamily(prefix, separator, text.count(separator) + 1 if separator else 1), text


def parse_coordinates(family: KeyFamily, keys: Sequence[str]) -> NDArray[np.int64] | None:
    """Return a row of chunk coordinates for each key; None if one of them is no key of this family.

    All keys begin with the prefix of the family.
    """
    separator, dimensions = family.separator, family.dimensions
    one = re.escape(separator).join([_COORDINATE] * dimensions)
    joined = ("\n" + "\n".join(keys)).replace(f"\n{family.prefix}", "\n")[1:]
    if re.fullmatch(rf"{one}(?:\n{one})*+", joined) is None:
        return None
    numbers = np.fromstring(joined.replace(separator, "\n") if separator else joined, np.int64, sep="\n")
    # A key may contain a line break.
    return numbers.reshape(-1, dimensions) if len(numbers) == len(keys) * dimensions else None


class ReferenceColumns:
    """The references of one key family, one row for each key.

    Rows are in C order of the coordinates. A table without gaps has a row for every chunk of a grid; others have
    ascending `numbers` of the chunks in the smallest grid that contains them.

    Args:
        family: the keys.
        grid: the number of chunks in each dimension.
        numbers: the C-order number of each row's chunk in `grid`; None if there is a row for every chunk.
        objects: for each row, the number of its object in a list of URLs, or `MISSING`.
        starts: for each row, its first byte.
        lengths: for each row, its number of bytes, or `WHOLE`.
    """

    def __init__(
        self,
        family: KeyFamily,
        grid: Sequence[int],
        numbers: NDArray[np.int64] | None,
        objects: NDArray[np.int32],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        self.family = family
        self.grid = tuple(grid)
        self.objects = objects
        self._numbers = numbers
        self._starts = starts
        self._lengths = lengths

    @classmethod
    def from_coordinates(
        cls,
        family: KeyFamily,
        coordinates: NDArray[np.int64],
        objects: NDArray[np.int32],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> ReferenceColumns | None:
        """Return the columns of rows in any order; of a chunk that occurs more than once, the last row counts.

        Returns: None if the numbers of the chunks would not fit in 63 bits.
        """
        grid = [int(each) + 1 for each in coordinates.max(axis=0)]
        size = 1
        for each in grid:
            size *= each
        if size > _MAX_BYTES:
            return None
        numbers = np.zeros(len(coordinates), np.int64)
        for column, extent in enumerate(grid):
            numbers = numbers * extent + coordinates[:, column]
        if len(numbers) > 1 and not (np.diff(numbers) > 0).all():
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            order = order[np.append(numbers[1:] != numbers[:-1], True)]
            numbers = numbers[np.append(numbers[1:] != numbers[:-1], True)]
            objects, starts, lengths = objects[order], starts[order], lengths[order]
        return cls(family, grid, None if len(numbers) == size else numbers, objects, starts, lengths)

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the columns take."""
        own = (self.objects, self._starts, self._lengths, self._numbers)
        return sum([column.nbytes for column in own if column is not None])

    def row(self, coordinates: str) -> int | None:
        """Return the row of the chunk with these coordinates in a key; None if there is none."""
        separator = self.family.separator
        number = 0
        for text, extent in zip(coordinates.split(separator) if separator else (coordinates,), self.grid, strict=True):
            if (coordinate := int(text)) >= extent:
                return None
            number = number * extent + coordinate
        if self._numbers is None:
            row = number
        else:
            row = int(np.searchsorted(self._numbers, number))
            if row == len(self._numbers) or self._numbers[row] != number:
                return None
        return None if self.objects[row] == MISSING else row

    def located(self, row: int) -> tuple[int, int, int | None]:
        """Return number of the object, first byte and length of a row."""
        return int(self.objects[row]), int(self._starts[row]), length_of(int(self._lengths[row]))

    def entries(self) -> Iterator[tuple[str, int | None]]:
        """Iterate over the keys, each with the length of its value; None for whole objects."""
        prefix, separator, _ = self.family
        for row in np.flatnonzero(self.objects != MISSING).tolist():
            number = row if self._numbers is None else int(self._numbers[row])
            coordinates: list[str] = []
            for extent in reversed(self.grid):
                number, coordinate = divmod(number, extent)
                coordinates.append(str(coordinate))
            yield prefix + separator.join(reversed(coordinates)), self.located(row)[2]


def length_of(length: int) -> int | None:
    """Return a length as of `Reference`, from one of the column."""
    return None if length == WHOLE else length


def check_reference(key: str, start: Any, length: Any) -> tuple[int, int]:
    """Return first byte and length of a reference, checked.

    Raises:
        InvalidMetadataError: they are not numbers of bytes.
        LimitError: the range ends beyond the bytes that a file can have.
    """
    # Tables that were made from columns of floating-point numbers have 1024.0.
    numbers = [
        int(each) if type(each) is int or (isinstance(each, float) and each.is_integer()) else -1
        for each in (start, length)
    ]
    if min(numbers) < 0:
        raise InvalidMetadataError(
            f"the reference {key!r} has the offset {shown_number(start)} and the length {shown_number(length)}; "
            "both must be numbers of bytes",
            key=key,
        )
    check_end(key, sum(numbers))
    return numbers[0], numbers[1]


def check_end(key: str, stop: int) -> None:
    """Raise `LimitError` if a reference ends beyond the bytes that a file can have."""
    if stop > _MAX_BYTES:
        raise LimitError(
            f"the reference {key!r} ends at byte {shown_number(stop)}; no object has more than 2**63 - 1 bytes",
            limit="reference end",
            value=min(stop, 1 << 64),
            allowed=_MAX_BYTES,
        )


def shown_number(value: object) -> str:
    """Return a value for a message. Python refuses to print integers of thousands of digits."""
    return repr(value) if not isinstance(value, int) or value.bit_length() <= 128 else f"2**{value.bit_length() - 1}"


def check_count(count: int) -> None:
    """Raise `LimitError` if a table of `count` references is too large to be in memory."""
    check_bound(count, MAX_REFERENCES, "references", "the table has {value} references; at most {allowed} are read")


def check_bound(value: int, allowed: int, limit: str, message: str, key: str | None = None) -> None:
    """Check a number of references, or of their bytes or characters, against its bound.

    Args:
        value: the number.
        allowed: the bound.
        limit: the name of the bound.
        message: the message of the error, with the fields `value`, `allowed` and `key`.
        key: the key of the document.

    Raises:
        LimitError: `value` exceeds `allowed`.
    """
    if value > allowed:
        text = message.format(value=value, allowed=allowed, key=key)
        raise LimitError(text, limit=limit, value=value, allowed=allowed, key=key)
