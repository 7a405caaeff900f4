"""Values as bytes of several formats, block by block along the first axis."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyBlock = NDArray[Any]


class ValueFormat(ABC):
    """Encodes an array that is read in blocks along its first axis.

    Attributes:
        is_binary: True if a terminal should not get it.
    """

    is_binary = False

    def check(self, dtype: np.dtype[Any]) -> None:  # noqa: B027  # most formats have all types
        """Check that the format has the type.

        Raises:
            TypeError: it has not.
        """

    def header(self, shape: tuple[int, ...], dtype: np.dtype[Any], names: Sequence[str]) -> bytes:
        """Return what comes before all blocks."""
        return b""

    @abstractmethod
    def block(self, values: AnyBlock, start: int) -> bytes:
        """Return the bytes of a block whose first row has the index `start`."""


class TextFormat(ValueFormat):
    """A line per row of the last axis, values separated by blanks; an empty line between planes."""

    def block(self, values: AnyBlock, start: int) -> bytes:
        """Return the lines of a block."""
        values = np.asarray(values)
        if not values.size:
            return b""
        width = values.shape[-1] if values.ndim > 1 else 1
        rows = values.shape[-2] if values.ndim > 2 else 0
        lines: list[str] = []
        texts = list(texts_of(values))
        for number, position in enumerate(range(0, len(texts), width)):
            if rows and number % rows == 0 and (number or start):
                lines.append("")
            lines.append(" ".join(texts[position : position + width]))
        return _encoded("\n".join(lines) + "\n")


class CsvFormat(ValueFormat):
    """A row per value: its index along each axis, and the value; the fields of a structure are columns."""

    def header(self, shape: tuple[int, ...], dtype: np.dtype[Any], names: Sequence[str]) -> bytes:
        """Return the row of names."""
        return _encoded(_csv_rows([[*names, *(dtype.names or ("value",))]]))

    def block(self, values: AnyBlock, start: int) -> bytes:
        """Return the rows of a block."""
        values = np.asarray(values)
        columns = [list(texts_of(values[name])) for name in values.dtype.names or ()] or [list(texts_of(values))]
        rows = zip(_indexes(values.shape, start), *columns, strict=True)
        return _encoded(_csv_rows([[*index, *row] for index, *row in rows]))


class JsonFormat(ValueFormat):
    """A JSON object per value, on a line: its index, and the value; NaN and infinities as texts."""

    def block(self, values: AnyBlock, start: int) -> bytes:
        """Return the lines of a block."""
        values = np.asarray(values)
        indexes = _indexes(values.shape, start)
        lines = [
            json.dumps({"index": list(index), "value": _json_value(value)}, ensure_ascii=False)
            for index, value in zip(indexes, _flat(values), strict=True)
        ]
        return _encoded("".join([f"{line}\n" for line in lines]))


class RawFormat(ValueFormat):
    """The bytes of the elements in C order and in the byte order of this machine."""

    is_binary = True

    def check(self, dtype: np.dtype[Any]) -> None:
        """Refuse elements that are Python objects."""
        if dtype.hasobject:
            raise TypeError(f"elements of type {dtype} have no bytes of a fixed size; --format text, csv or --json")

    def block(self, values: AnyBlock, start: int) -> bytes:
        """Return the bytes of a block."""
        return np.ascontiguousarray(values).tobytes()


class NpyFormat(RawFormat):
    """A file of NumPy's format `.npy`."""

    def header(self, shape: tuple[int, ...], dtype: np.dtype[Any], names: Sequence[str]) -> bytes:
        """Return magic, version and dictionary of the file."""
        file = io.BytesIO()
        description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(file, description)
        return file.getvalue()


FORMATS: dict[str, ValueFormat] = {
    "text": TextFormat(),
    "csv": CsvFormat(),
    "json": JsonFormat(),
    "raw": RawFormat(),
    "npy": NpyFormat(),
}


def texts_of(values: AnyBlock) -> Iterable[str]:
    """Return the shortest texts that give back the values, in C order."""
    if values.dtype.kind in "biufcMmU":
        texts: list[str] = values.astype(np.str_).ravel().tolist()
        return texts
    return [str(value) for value in _flat(values)]


def _flat(values: AnyBlock) -> Iterator[Any]:
    return iter(values.ravel())


def _indexes(shape: tuple[int, ...], start: int) -> Iterator[tuple[int, ...]]:
    for index in np.ndindex(shape):
        yield (index[0] + start, *index[1:]) if index else index


def _json_value(value: Any) -> Any:
    item = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(item, float) and (item != item or item in (float("inf"), float("-inf"))):
        return "NaN" if item != item else "Infinity" if item > 0 else "-Infinity"
    if isinstance(item, bool | int | str) or item is None:
        # Of a time, numpy gives nanoseconds as a number: its text says the unit.
        return str(value) if isinstance(value, np.datetime64 | np.timedelta64) else item
    if isinstance(item, float):
        return float(str(value))
    if isinstance(item, list | tuple):
        return [_json_value(each) for each in item]
    return str(value)


def _csv_rows(rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
