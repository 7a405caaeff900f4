"""Parts of one dimension, by index or by coordinate, and the texts that describe them."""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from datetime import timedelta
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.formatting import shown
from aiozarr.errors import SelectionError

Period: TypeAlias = tuple[Any, Any]
"""The first and the last decoded coordinate that a bound includes."""

_UNITS = {"h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# Only these spellings: cftime and pandas ignore what they do not expect, and read "2020-01-01 06" in two ways.
_REFERENCE = re.compile(
    r"\s*(\w+)\s+since\s+(-?\d{1,5}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d+)?)?)"
    r"(?: ?([+-])(\d{1,2})(?::?(\d\d))?)?)?(?: ?(?:Z|UTC|GMT))?\s*",
    re.IGNORECASE | re.ASCII,
)
_INTEGER = re.compile(r"[+-]?\d+")
_SLICE = re.compile(r"(?:[+-]?\d+)?\s*:\s*+(?:[+-]?\d+)?\s*(?::\s*(?:[+-]?\d+)?)?")
_CLOCK_TIME = re.compile(r"-?\d+-\d\d-\d\d[T ]\d\d:\d\d")
_TIME = re.compile(
    r"(-?\d{4,5})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?)?)?)?", re.ASCII
)


def is_index(part: Any) -> bool:
    """Return whether a part of a selection has indexes, not coordinates."""
    bounds = (part.start, part.stop) if isinstance(part, slice) else (part,)
    return all(bound is None or _is_integer(bound) for bound in bounds)


def parse_part(text: str) -> Any:
    """Return the part of a dimension that `text` describes.

    Returns: an index for `5`; a slice of indexes for `START:STOP:STEP`; a slice of texts for the coordinates
        `START..STOP`, both of which are included; any other text, which is a single coordinate.

    Raises:
        ValueError: `text` is empty, or a colon separates bounds that are not integers.
    """
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    if _SLICE.fullmatch(text):
        return slice(*[int(bound) if bound.strip() else None for bound in text.split(":")])
    start, dots, stop = text.partition("..")
    if dots:
        return slice(start.strip() or None, stop.strip() or None)
    if not text:
        raise ValueError("the selection is empty; expected an index, START:STOP or START..STOP")
    # The colons of a time separate hours and minutes.
    if ":" in text and not _CLOCK_TIME.match(text):
        start, _, stop = text.partition(":")
        raise ValueError(
            f"{text!r} has a colon, which separates indexes, but its bounds are not integers; "
            f"write a range of coordinates with two dots: {start.strip()}..{stop.strip()}"
        )
    return text


def resolve_indexes(part: Any, length: int, *, name: str) -> slice:
    """Return the part of a dimension of `length` that indexes select, as Python's slices do.

    A single index keeps the dimension, with length 1.

    Raises:
        SelectionError: the index is outside, or the slice selects none of the dimension's elements.
    """
    if isinstance(part, slice):
        if length and not range(length)[part]:
            raise SelectionError(
                f"the indexes {text_of(part, ':')} select nothing from dimension {name!r}, which has length {length}"
            )
        start, stop, step = part.indices(length)
        return slice(start, None if stop < 0 else stop, step)  # a negative step may end before the first element
    at = index(part)
    if not -length <= at < length:
        raise SelectionError(f"index {at} is outside dimension {name!r}, which has length {length}")
    at %= length
    return slice(at, at + 1, 1)


def text_of(part: slice, separator: str) -> str:
    """Return the bounds of a slice as text, without its step."""
    return separator.join("" if bound is None else str(bound) for bound in (part.start, part.stop))


def resolve_coordinates(part: Any, values: NDArray[Any], attributes: Mapping[str, Any], *, name: str) -> slice:
    """Return the part of a dimension whose coordinates are between the bounds, both bounds included.

    Numbers with `units` such as `days since 2000-01-01` are times, which cftime decodes.

    Args:
        part: a slice of coordinates, or one that must exist. A text is a number or a time if the coordinates are.
        values: the coordinates as they are stored.
        attributes: the attributes of the coordinates.
        name: the name of the dimension.

    Raises:
        SelectionError: no element is selected, or the coordinates are not sorted, are missing, or cannot be decoded.
        ImportError: the coordinates are times, and cftime is not installed.
    """
    bounds = (part.start, part.stop) if isinstance(part, slice) else (part, part)
    selected = text_of(part, "..") if isinstance(part, slice) else part
    span = f"range from {values[0]} to {values[-1]}" if len(values) else "are empty"
    if values.dtype.kind == "M":
        values, attributes = _as_numbers(values)
    try:
        if any([bound != bound for bound in bounds]):
            raise ValueError("it is not a number")
        decode, period = _decoder(values, attributes, name)
        periods: list[Period] = [(None, None) if bound is None else period(bound) for bound in bounds]
        (low, first), (last, high) = periods
        if _is_missing(values, attributes).any():
            raise SelectionError(f"dimension {name!r} has missing coordinates; select it by index")
        ascends, descends = [bool(np.all(order[1:] >= order[:-1])) for order in (values, values[::-1])]
        if None not in (low, high) and low > high:
            low, high = last, first
        elif not ascends and (None in bounds or (last <= first and (last, first) != (low, high))):
            # Where coordinates descend, xarray answers by position for some calendars, and by value for others.
            raise SelectionError(
                f"the coordinates of dimension {name!r} do not ascend, so {selected} is ambiguous; select it by index"
            )
        if ascends or descends:
            order = range(len(values)) if ascends else range(len(values))[::-1]
            start = 0 if low is None else bisect_left(order, low, key=lambda i: decode(values[i]))
            stop = None if high is None else bisect_right(order, high, key=lambda i: decode(values[i]))
            found = sorted(order[start:stop])
        elif isinstance(part, slice):
            raise SelectionError(f"the coordinates of dimension {name!r} are not sorted; select it by index")
        else:
            found = [i for i, value in enumerate(values) if low <= decode(value) <= high]
    except (TypeError, ValueError, OverflowError) as error:
        raise SelectionError(
            f"{selected} cannot be compared with the coordinates of dimension {name!r}: {error}"
        ) from error
    if not found:
        raise SelectionError(f"{selected} selects nothing from dimension {name!r}, whose coordinates {span}")
    if found[-1] - found[0] >= len(found):
        raise SelectionError(f"the coordinates of dimension {name!r} are not sorted; select it by index")
    return slice(found[0], found[-1] + 1)


def _as_numbers(values: NDArray[Any]) -> tuple[NDArray[Any], Mapping[str, Any]]:
    """Return times of numpy as numbers, and the attributes that describe them."""
    unit = np.datetime_data(values.dtype)[0]
    unit = "D" if unit in ("Y", "M", "W") else unit
    attributes = {"units": f"{_UNITS.get(unit, unit)} since 1970-01-01", "calendar": "proleptic_gregorian"}
    # NaT is the least number.
    return values.astype(f"M8[{unit}]").astype("i8"), attributes | {"_FillValue": -(2**63)}


def _is_missing(values: NDArray[Any], attributes: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which coordinates are NaN, NaT, or a number that an attribute declares to be missing."""
    is_missing = np.asarray(values != values)
    for fill in map(attributes.get, ("_FillValue", "missing_value") if values.dtype.kind in "iuf" else ()):
        # In attributes of format 3, xarray writes a float as the base64 of its eight bytes.
        fill = np.frombuffer(b64decode(fill), "<f8") if isinstance(fill, str) else fill
        for number in np.ravel(() if fill is None else fill).tolist():
            is_missing |= values == number
    return is_missing


def _decoder(
    values: NDArray[Any], attributes: Mapping[str, Any], name: str
) -> tuple[Callable[[Any], Any], Callable[[Any], Period]]:
    """Return how a coordinate is decoded to a number, a text or a time, and a bound to the coordinates it includes.

    Raises:
        SelectionError: the coordinates have a type or attributes that cannot be decoded.
    """
    kind = values.dtype.kind
    if kind in "mTUOS":
        return lambda value: value, lambda bound: (bound, bound)
    packed = [member for member in ("scale_factor", "add_offset", "_Unsigned") if member in attributes]
    if kind not in "iuf" or packed:
        what = f"packed ({packed[0]})" if packed else f"of type {values.dtype}"
        raise SelectionError(f"the coordinates of dimension {name!r} are {what}; select it by index")
    units = attributes.get("units")
    if isinstance(units, str) and "since" in units.lower():
        return _cf_decoder(units, attributes.get("calendar", "standard"), name)

    def period(bound: Any) -> Period:
        number = float(bound) if not (_is_integer(bound) or str(bound).lstrip("+-").isdecimal()) else int(bound)
        # A coordinate of 32 bits is compared with the nearest number of 32 bits.
        with np.errstate(over="ignore"):
            number = values.dtype.type(number).item() if kind == "f" else number
        return number, number

    return lambda value: value.item(), period


def _cf_decoder(units: str, calendar: Any, name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Period]]:
    """Return how a time of the CF conventions ("Time Coordinate") and a bound are decoded.

    Both become a date of the calendar, and nanoseconds after it, because dates of cftime have microseconds.
    """
    try:
        import cftime
    except ModuleNotFoundError:
        raise ImportError(
            f"dimension {name!r} has times as coordinates, which require the package cftime: pip install cftime"
        ) from None

    unknown = f"times in {shown(units)} in the calendar {shown(calendar)} are not supported; select {name!r} by index"
    match = _REFERENCE.fullmatch(units)
    if match is None:
        raise SelectionError(unknown)
    unit, date, time, sign, hours, minutes = match.groups()
    parts = 1000 if unit.lower() in ("nanosecond", "nanoseconds") else 1
    zone = f"{sign}{int(hours):02}:{minutes or '00'}" if sign else ""
    reference = f"{'microseconds' if parts > 1 else unit} since {date} {time or '0:00'} {zone}"

    def decode(value: Any) -> tuple[Any, Any]:
        whole, rest = divmod(value.item(), parts) if parts > 1 else (value.item(), 0)
        return cftime.num2date(whole, reference, calendar), rest

    try:
        epoch, _ = decode(np.int64(0))
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError) as error:
        raise SelectionError(f"{unknown}: {error}") from error

    def period(bound: Any) -> Period:
        text = bound.isoformat() if hasattr(bound, "isoformat") else str(bound)
        match = _TIME.fullmatch(text)
        if match is None or getattr(bound, "calendar", epoch.calendar) != epoch.calendar:
            raise ValueError(f"expected a time without a zone, such as 2020, 2020-01 or 2020-01-31T06:00, got {text!r}")
        *fields, fraction = match.groups()
        given = [int(field) for field in fields if field]
        nanoseconds = int((fraction or "").ljust(9, "0"))
        at = (*given, *(1, 1, 1, 0, 0, 0)[len(given) :])
        start = cftime.datetime(*at, nanoseconds // 1000, calendar=epoch.calendar)
        first = (start, nanoseconds % 1000)
        if not isinstance(bound, str) or fraction:
            return first, first
        if len(given) < 3:
            years, month = divmod(at[1] if len(given) == 2 else 12, 12)
            stop = start.replace(year=at[0] + years, month=month + 1)
        else:
            stop = start + timedelta(**{("days", "hours", "minutes", "seconds")[len(given) - 3]: 1})
        return first, (stop - timedelta(microseconds=1), 999)

    return decode, period


def _is_integer(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True
