"""Attributes as JSON values: copied on the way in and on the way out, so that no caller holds what a node holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np

JSON: TypeAlias = Any

MAX_DEPTH = 200
"""Nesting that a document may have; a value that contains itself is found by it too."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("attributes are read-only here: update_attributes and replace_attributes change what is stored")


class Attributes(dict[str, JSON]):
    """Attributes that were read: a dict that cannot be changed, because nothing would be stored by it."""

    __slots__ = ()

    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __ior__: Any = _refuse
    clear: Any = _refuse
    pop: Any = _refuse
    popitem: Any = _refuse
    setdefault: Any = _refuse
    update: Any = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (Attributes, (dict(self),))


def frozen_attributes(attributes: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a read-only dict of copies: changing a nested list changes that copy alone."""
    return Attributes(copy_json(attributes))


def checked_attributes(attributes: Mapping[str, Any] | None) -> dict[str, JSON]:
    """Return `attributes` as plain JSON values: numpy scalars become numbers, tuples lists, None no attributes.

    Raises:
        TypeError: no mapping, a key that is no string, or a value that JSON does not have; names its place.
        ValueError: nested deeper than 200 levels.
    """
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise TypeError(f"attributes are a mapping, not {type(attributes).__name__}")
    copied: dict[str, JSON] = copy_json(attributes)
    return copied


def copy_json(value: Mapping[str, Any]) -> dict[str, JSON]:
    """Return a deep copy made of dict, list, str, int, float, bool and None.

    It works through a list in place of calling itself: the caller's stack may be deep already.

    Raises:
        TypeError, ValueError: as `checked_attributes` says.
    """
    result: dict[str, JSON] = {}
    open_values: list[tuple[Any, dict[str, JSON] | list[JSON], tuple[Any, ...]]] = [(value, result, ())]
    while open_values:
        source, target, place = open_values.pop()
        if len(place) >= MAX_DEPTH:
            raise ValueError(f"attributes are nested deeper than {MAX_DEPTH} levels, or contain themselves")
        for key, item in source.items() if isinstance(source, Mapping) else enumerate(source):
            at = (*place, key)
            copied = _shallow(item, at)
            if isinstance(copied, (dict, list)):
                open_values.append((item, copied, at))
            if isinstance(target, list):
                target.append(copied)
            elif isinstance(key, str):
                target[key] = copied
            else:
                raise TypeError(f"the names of attributes are strings, not {key!r} ({_at(at)})")
    return result


def _shallow(item: Any, place: tuple[Any, ...]) -> JSON:
    """Return `item` where it is a JSON scalar, an empty container of its kind where it is a container."""
    if item is None or isinstance(item, (str, bool)):
        return item
    if isinstance(item, np.generic):
        item = item.item()
    # Subclasses such as enumerations would be written by their own rules: plain numbers are not.
    if isinstance(item, bool):
        return item
    if isinstance(item, int):
        return int(item)
    if isinstance(item, float):
        return float(item)
    if isinstance(item, Mapping):
        return {}
    if isinstance(item, (list, tuple)):
        return []
    raise TypeError(f"{type(item).__name__} is no JSON value ({_at(place)})")


def _at(place: tuple[Any, ...]) -> str:
    return "attributes" + "".join(f"[{part!r}]" for part in place[:8])
