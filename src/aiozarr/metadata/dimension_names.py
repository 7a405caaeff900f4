"""Dimension names in v1 and v2: the attribute `_ARRAY_DIMENSIONS`, a convention of xarray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ATTRIBUTE = "_ARRAY_DIMENSIONS"


def dimension_names_of(attributes: Mapping[str, Any], ndim: int) -> tuple[str | None, ...] | None:
    """Return the dimension names in the attributes, or None if they have no valid names for `ndim` dimensions."""
    names = attributes.get(ATTRIBUTE)
    if not isinstance(names, list | tuple) or len(names) != ndim:
        return None
    if not all(name is None or isinstance(name, str) for name in names):
        return None
    return tuple(names)


def with_dimension_names(attributes: Mapping[str, Any], names: tuple[str | None, ...] | None) -> dict[str, Any]:
    """Return the attributes with these dimension names; None leaves the attributes unchanged."""
    result = dict(attributes)
    if names is not None and dimension_names_of(attributes, len(names)) != names:
        result[ATTRIBUTE] = list(names)
    return result
