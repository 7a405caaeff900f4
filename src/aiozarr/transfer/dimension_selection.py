"""Selections of a copy: parts of dimensions, by index or by coordinate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import SelectionError

Selection: TypeAlias = Mapping[str, Any]
"""A slice or a single value per dimension: integers are indexes, all others coordinates."""

_CALENDARS = frozenset({"standard", "gregorian", "proleptic_gregorian"})
_NANOSECONDS = {
    **dict.fromkeys(("day", "days", "d"), 86_400 * 10**9),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), 3_600 * 10**9),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), 60 * 10**9),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), 10**9),
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs", "ms"), 10**6),
    **dict.fromkeys(("microsecond", "microseconds", "us"), 10**3),
    **dict.fromkeys(("nanosecond", "nanoseconds", "ns"), 1),
}
_SINCE = re.compile(r"\s*(\w+)\s+since\s+(\d{1,4}-\d{1,2}-\d{1,2})(?:[T\s]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?))?")


def check_selection(selection: Selection) -> None:
    """Check the form of a selection.

    Raises:
        TypeError, ValueError: it is not a mapping of names to slices and values, or has a step.
    """
    if not isinstance(selection, Mapping):
        raise TypeError(f"select is a mapping such as {{'time': slice(0, 24)}}, not {type(selection).__name__}")
    for name, part in selection.items():
        if not isinstance(name, str):
            raise TypeError(f"select has names of dimensions, not {type(name).__name__}")
        if isinstance(part, slice):
            if part.step not in (None, 1):
                raise ValueError(f"select[{name!r}] has the step {part.step}: a copy has adjacent elements")
        elif isinstance(part, bool) or part is None or part is Ellipsis or isinstance(part, list | tuple | dict | set):
            raise TypeError(f"select[{name!r}] is a slice, an index or a coordinate, not {type(part).__name__}")


def is_index(part: Any) -> bool:
    """Return whether a part of a selection has indexes, not coordinates."""
    bounds = (part.start, part.stop) if isinstance(part, slice) else (part,)
    return all(bound is None or _is_integer(bound) for bound in bounds)


def resolve_indexes(part: Any, length: int, *, name: str) -> slice:
    """Return the part of a dimension of `length` that indexes select, as Python's slices do.

    A single index keeps the dimension, with length 1.

    Raises:
        SelectionError: the index is outside, or the slice selects none of the dimension's elements.
    """
    if isinstance(part, slice):
        check_not_empty(part, length, name=name)
        start, stop, _ = slice(part.start, part.stop).indices(length)
        return slice(start, stop)
    at = index(part)
    if not -length <= at < length:
        raise SelectionError(f"index {at} is outside of dimension {name!r}, which has the length {length}")
    at %= length
    return slice(at, at + 1)


def check_not_empty(part: slice, length: int, *, name: str) -> None:
    """Refuse a slice of indexes that selects nothing of a dimension that has elements.

    Raises:
        SelectionError: it is such a slice.
    """
    if length and not range(length)[part]:
        text = ":".join("" if bound is None else str(bound) for bound in (part.start, part.stop))
        raise SelectionError(
            f"the indexes {text} select nothing of dimension {name!r}, which has the length {length}; "
            "bounds that are no integers are coordinates"
        )


def resolve_coordinates(part: Any, values: NDArray[Any], attributes: Mapping[str, Any], *, name: str) -> slice:
    """Return the part of a dimension whose coordinates lie between the bounds, which are included.

    Args:
        part: a slice of coordinates, or one that must exist.
        values: the coordinates, which ascend or descend.
        attributes: the attributes of the coordinates; `units` such as `days since 2000-01-01` turn numbers into times.
        name: the name of the dimension.

    Raises:
        SelectionError: no element is selected, or the coordinates are not sorted.
    """
    values = _as_times(values, attributes, name) if values.dtype.kind in "iuf" else values
    bounds = (part.start, part.stop) if isinstance(part, slice) else (part, part)
    is_time = values.dtype.kind == "M"
    if not is_time and any(isinstance(bound, str) for bound in bounds) and values.dtype.kind not in "TUO":
        raise SelectionError(f"dimension {name!r} has numbers as coordinates, and {part!r} is none")
    inside = np.ones(values.shape, bool)
    try:
        low, high = _bound(bounds[0], is_time, end=False), _bound(bounds[1], is_time, end=True)
        if None not in (low, high) and low > high:
            low, high = _bound(bounds[1], is_time, end=False), _bound(bounds[0], is_time, end=True)
        if low is not None:
            inside &= values >= low
        if high is not None:
            inside &= values <= high
    except (TypeError, ValueError) as error:
        raise SelectionError(f"{part!r} cannot be compared with the coordinates of dimension {name!r}") from error
    found = np.flatnonzero(inside)
    if not len(found):
        span = f"from {values.min()} to {values.max()}" if len(values) else "of which there are none"
        ends = ["" if bound is None else str(bound) for bound in bounds]
        shown = "..".join(ends) if isinstance(part, slice) else repr(part)
        raise SelectionError(f"nothing of dimension {name!r} is selected by {shown}: its coordinates are {span}")
    start, stop = int(found[0]), int(found[-1]) + 1
    if stop - start != len(found):
        raise SelectionError(f"the coordinates of dimension {name!r} are not sorted; select it by index")
    return slice(start, stop)


def _bound(bound: Any, is_time: bool, *, end: bool) -> Any:
    if bound is None or not is_time:
        return bound
    if not isinstance(bound, str | np.datetime64) and not hasattr(bound, "isoformat"):
        raise TypeError("a number is no time")
    time = np.datetime64(bound)
    if not end or not isinstance(bound, str):
        return time
    # `2020-02` as an end is the end of that month, as in pandas and xarray.
    unit, count = np.datetime_data(time.dtype)
    return (time + np.array(count, f"m8[{unit}]")).astype("M8[ns]") - np.timedelta64(1, "ns")


def _as_times(values: NDArray[Any], attributes: Mapping[str, Any], name: str) -> NDArray[Any]:
    """Return numbers as times if their units say so (CF conventions, "Time Coordinate")."""
    units = attributes.get("units")
    match = _SINCE.match(units) if isinstance(units, str) else None
    if match is None:
        return values
    calendar = attributes.get("calendar", "standard")
    nanoseconds = _NANOSECONDS.get(match[1].lower())
    if calendar not in _CALENDARS or nanoseconds is None:
        raise SelectionError(f"times in {units!r} of the calendar {calendar!r} are not known; select {name!r} by index")
    year, month, day = match[2].split("-")
    start = np.datetime64(f"{int(year):04}-{int(month):02}-{int(day):02}T{(match[3] or '00:00').rjust(5, '0')}", "ns")
    if values.dtype.kind == "f":
        steps = np.round(values.astype("f8") * nanoseconds)
        return start + np.where(np.isfinite(steps), steps, 0).astype("m8[ns]")
    return start + (values.astype("i8") * nanoseconds).astype("m8[ns]")


def _is_integer(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True
