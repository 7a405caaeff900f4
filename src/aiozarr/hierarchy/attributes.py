"""Attributes as JSON values: copied when they are set and when they are read, so that callers never share them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np

from aiozarr.metadata.document import check_json

JSON: TypeAlias = Any

MAX_DEPTH = 200
"""Nesting depth that a document may have. The limit also stops at a value that contains itself."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(
        "attributes are read-only here; change the stored attributes with `await node.update_attributes({...})` "
        "(without await in aiozarr.sync), or use `attrs.copy()` for a plain dict"
    )


class Attributes(dict[str, JSON]):
    """Attributes that were read: a read-only dict, because changing it would not change the stored ones."""

    __slots__ = ()

    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __ior__: Any = _refuse
    clear: Any = _refuse
    pop: Any = _refuse
    popitem: Any = _refuse
    setdefault: Any = _refuse
    update: Any = _refuse
    # A method of zarr-python's attributes.
    put: Any = _refuse

    def copy(self) -> dict[str, JSON]:
        """Return a deep copy that can be changed, of plain dicts and lists."""
        return copy_json(self)

    def asdict(self) -> dict[str, JSON]:
        """Return the same as `copy`, by zarr-python's name."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return (frozen_attributes, (copy_json(self),))


class AttributeList(list[JSON]):
    """A list inside attributes that were read; it is read-only, too."""

    __slots__ = ()

    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __iadd__: Any = _refuse
    __imul__: Any = _refuse
    append: Any = _refuse
    clear: Any = _refuse
    extend: Any = _refuse
    insert: Any = _refuse
    pop: Any = _refuse
    remove: Any = _refuse
    reverse: Any = _refuse
    sort: Any = _refuse

    def copy(self) -> list[JSON]:
        """Return a deep copy that can be changed, of plain dicts and lists."""
        copied: list[JSON] = copy_json({"": self})[""]
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return (_frozen_list, (self.copy(),))


def _frozen_list(values: list[JSON]) -> JSON:
    return frozen_attributes({"": values})[""]


def frozen_attributes(attributes: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a deep copy that is read-only at every level."""
    plain = copy_json(attributes)
    # Children before their parents, and without recursion, because the caller's stack may be deep already.
    containers: list[dict[str, JSON] | list[JSON]] = [plain]
    for each in containers:
        children = each.values() if isinstance(each, dict) else each
        containers += [child for child in children if isinstance(child, (dict, list))]
    frozen: dict[int, JSON] = {}
    for each in reversed(containers):
        if isinstance(each, dict):
            frozen[id(each)] = Attributes({key: frozen.get(id(item), item) for key, item in each.items()})
        else:
            frozen[id(each)] = AttributeList([frozen.get(id(item), item) for item in each])
    result: Mapping[str, JSON] = frozen[id(plain)]
    return result


def checked_attributes(attributes: Mapping[str, Any] | None, *, finite: bool) -> dict[str, JSON]:
    """Return `attributes` as plain JSON values: numpy scalars become numbers, tuples lists, None an empty dict.

    Args:
        attributes: the attributes that a caller gave.
        finite: reject NaN and infinities, as format 3 requires.

    Raises:
        TypeError: not a mapping, a key that is not a string, or a value that JSON does not have. Names its position.
        ValueError: nested deeper than 200 levels.
        InvalidMetadataError: a text with a lone surrogate, which UTF-8 lacks, or a number that is not finite.
    """
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise TypeError(f"attributes must be a mapping, not {type(attributes).__name__}")
    copied: dict[str, JSON] = copy_json(attributes)
    check_json(copied, "attributes", finite=finite)
    return copied


def copy_json(value: Mapping[str, Any]) -> dict[str, JSON]:
    """Return a deep copy made of dict, list, str, int, float, bool and None.

    Iterative, because the caller's stack may be deep already.

    Raises:
        TypeError, ValueError: as `checked_attributes` says.
    """
    result: dict[str, JSON] = {}
    open_values: list[tuple[Any, dict[str, JSON] | list[JSON], tuple[Any, ...]]] = [(value, result, ())]
    while open_values:
        source, target, path = open_values.pop()
        if len(path) >= MAX_DEPTH:
            raise ValueError(f"attributes are nested deeper than {MAX_DEPTH} levels, or contain themselves")
        for key, item in source.items() if isinstance(source, Mapping) else enumerate(source):
            item_path = (*path, key)
            copied = _shallow(item, item_path)
            if isinstance(copied, (dict, list)):
                open_values.append((item, copied, item_path))
            if isinstance(target, list):
                target.append(copied)
            elif isinstance(key, str):
                target[key] = copied
            else:
                raise TypeError(f"{_format_path(item_path)} has a name that is not a str, as JSON requires")
    return result


def _shallow(item: Any, path: tuple[Any, ...]) -> JSON:
    """Return a JSON scalar as it is, and a container as an empty container of its kind."""
    if item is None or isinstance(item, (str, bool)):
        return item
    # The `item()` of times in nanoseconds is a number without its unit.
    if isinstance(item, np.generic) and not isinstance(item, (np.datetime64, np.timedelta64)):
        item = item.item()
    # Subclasses, such as enumerations, become plain numbers, because json would render them by their own methods.
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
    advice = ""
    if isinstance(item, np.ndarray):
        advice = "; its `tolist()` is one"
    elif isinstance(item, (dt.date, dt.timedelta, np.datetime64, np.timedelta64)):
        advice = "; its `str()` is one"
    raise TypeError(f"{_format_path(path)} is of type {type(item).__name__}, which is not a JSON value{advice}")


def _format_path(path: tuple[Any, ...]) -> str:
    return "attributes" + "".join(f"[{part!r}]" for part in path[:8])
