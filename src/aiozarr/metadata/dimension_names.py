"""Names of dimensions where the format has no member for them: the attribute `_ARRAY_DIMENSIONS` (v2, 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ATTRIBUTE = "_ARRAY_DIMENSIONS"


def dimension_names_of(attributes: Mapping[str, Any], ndim: int) -> tuple[str | None, ...] | None:
    """Return the names that the attribute gives `ndim` dimensions; None where it gives none, or something else."""
    names = attributes.get(ATTRIBUTE)
    if not isinstance(names, list | tuple) or len(names) != ndim:
        return None
    if not all(name is None or isinstance(name, str) for name in names):
        return None
    return tuple(names)


def with_dimension_names(attributes: Mapping[str, Any], names: tuple[str | None, ...] | None) -> dict[str, Any]:
    """Return the attributes with these names among them; None leaves them as they are."""
    result = dict(attributes)
    if names is not None and dimension_names_of(attributes, len(names)) != names:
        result[ATTRIBUTE] = list(names)
    return result
