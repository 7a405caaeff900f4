"""Parses the parameters of numcodecs configurations, with the defaults of numcodecs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from aiozarr.codecs.registry import CHECKS, integer, invalid, required
from aiozarr.common.formatting import shown

_SIMPLE_TYPE = re.compile(
    r"[<>|=]?(?:b1|\?|[bBhHiIlLqQefdFD]|[iu][1248]|f[248]|c(?:8|16)|[SUV][0-9]{1,6}|[mM]8(?:\[[0-9a-zA-Z]{1,12}\])?"
    r"|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|(?:datetime|timedelta)64(?:\[[0-9a-zA-Z]{1,12}\])?)"
)
_OBJECT_TYPES = ("|O", "O", "object")


def any_level(configuration: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    """Return the member `key`, an integer that is clipped to the range from `least` to `most`."""
    return min(most, max(least, integer(configuration, key, -(2**31), 2**31, default)))


def flag(configuration: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return the member `key`, true or false. GDAL writes "YES" and "NO"."""
    value = configuration.get(key, default)
    if isinstance(value, str) and value.upper() in ("YES", "NO"):
        return value.upper() == "YES"
    return CHECKS.boolean(value, key)


def data_type(configuration: Mapping[str, Any], key: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the member `key`, a simple numpy type such as "<i4". It is required without a default.

    A null means the default, as in numcodecs.
    """
    value = configuration.get(key)
    if value is None and default is not None:
        return default
    return simple_type(required(configuration, key), key)


def simple_type(value: object, key: str) -> np.dtype[Any]:
    """Return the numpy type `value`, of fixed size and without fields. `key` names the member in the error."""
    if isinstance(value, str) and _SIMPLE_TYPE.fullmatch(value):
        try:
            dtype = np.dtype(value)
        except (TypeError, ValueError):
            dtype = np.dtype("V0")
        if dtype.itemsize:
            return dtype
    raise invalid(key, f"it must be a simple type such as '<i4', not {shown(value)}")


def is_object_type(value: object) -> bool:
    """Return whether `value` is numpy's type of Python objects."""
    return isinstance(value, str) and value in _OBJECT_TYPES
