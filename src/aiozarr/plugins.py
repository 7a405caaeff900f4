"""Extensions that installed packages announce by entry points: found by name, imported when first asked for."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from aiozarr.errors import UnsupportedMetadataError

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "codec": "aiozarr.codecs",
        "data_type": "aiozarr.data_types",
        "chunk_grid": "aiozarr.chunk_grids",
        "chunk_key_encoding": "aiozarr.chunk_key_encodings",
        "storage_transformer": "aiozarr.storage_transformers",
        "store": "aiozarr.stores",
    }
)
"""The entry point group of each extension point; the name of an entry point is the name that documents use."""

_MANY = 8
"""Names that a message lists at most."""

_REGISTER = {
    "codec": "aiozarr.codecs.register",
    "data_type": "aiozarr.metadata.register_data_type",
    "chunk_grid": "aiozarr.grid.register_chunk_grid",
    "chunk_key_encoding": "aiozarr.grid.register_chunk_key_encoding",
    "storage_transformer": "aiozarr.stores.transformer.register_storage_transformer",
    "store": "aiozarr.stores.register_store",
}


def load_plugin(point: str, name: str) -> object | None:
    """Return what an installed package announces under exactly this `name`; None where none does.

    A stored name can only choose among what the user has installed for this purpose: nothing else is imported.

    Args:
        point: the extension point, a key of `GROUPS`.
        name: the name in a document; for stores, the scheme of a URL.

    Raises:
        UnsupportedMetadataError: the package cannot be imported, or several packages announce the name.
    """
    found = _announced().get((GROUPS[point], name), ())
    if not found:
        return None
    if len({each.value for each in found}) > 1:
        packages = " and ".join(sorted({_package(each) for each in found}))
        raise _unusable(point, name, f"the packages {packages} both announce it")
    entry = found[0]
    try:
        # Python imports a module once and lets one thread do it, so nothing is kept here.
        plugin: object = entry.load()
    except Exception as error:
        reason = f"the package {_package(entry)} announces it as {entry.value}, which fails to load: {error!r}"
        raise _unusable(point, name, reason) from error
    return plugin


def load_class(point: str, name: str, *kinds: type) -> Any:
    """Return the class that `load_plugin` finds, which must be a concrete subclass of one of `kinds`.

    Raises:
        UnsupportedMetadataError: as from `load_plugin`, or it is something else.
    """
    plugin = load_plugin(point, name)
    if plugin is not None:
        try:
            check_class(plugin, *kinds, named=False)
        except TypeError as error:
            raise not_of_its_kind(point, name, str(error)) from None
    return plugin


def check_class(given: object, *kinds: type, named: bool = True) -> None:
    """Check that an extension is a concrete subclass of one of `kinds`, with a `name` that documents can use.

    Raises:
        TypeError: it is not; the message says what is missing.
    """
    wanted = " or ".join(kind.__qualname__ for kind in kinds)
    if not isinstance(given, type) or not issubclass(given, kinds):
        raise TypeError(f"a subclass of {wanted} is wanted, not {repr(given)[:200]}")
    if inspect.isabstract(given):
        missing = ", ".join(sorted(getattr(given, "__abstractmethods__", ())))
        raise TypeError(f"{given.__name__} is abstract: it lacks {missing}")
    name = getattr(given, "name", None)
    if named and (not isinstance(name, str) or not name):
        raise TypeError(f"{given.__name__} needs a class attribute `name`, a non-empty str")


def not_of_its_kind(point: str, name: str, reason: str) -> UnsupportedMetadataError:
    """Return the error for a plug-in that loads and is not what its group is for."""
    entry = _announced()[GROUPS[point], name][0]
    return _unusable(point, name, f"the package {_package(entry)} announces it as {entry.value}: {reason}")


def unknown(point: str, name: str, known: Iterable[str], *, member: str) -> UnsupportedMetadataError:
    """Return the error for a name that nothing here goes by; it says which come close and how to add one."""
    shown = name[:200]
    names = _suggestions(shown, sorted({*known, *announced(point)}))
    return UnsupportedMetadataError(
        f"unknown {point.replace('_', ' ')} {shown!r}; known: {names}. Another one is registered by "
        f"{_REGISTER[point]}, or by an installed package with an entry point in the group {GROUPS[point]!r}",
        member=member,
        point=point,
        name=shown,
    )


def _suggestions(name: str, known: list[str]) -> str:
    """Return the names that a message lists: all where they are few, else those that are most like `name`."""
    if len(known) <= _MANY:
        return ", ".join(known) or "none"
    # A prefix may be all that is missing, or too much: last parts are compared as well.
    last = name.rpartition(".")[2]
    close = [each for each in known if each.rpartition(".")[2] == last]
    close += [each for each in get_close_matches(name, known, n=_MANY) if each not in close]
    return f"{len(known)} names, none of which is like it" if not close else ", ".join(close[:_MANY])


def announced(point: str) -> tuple[str, ...]:
    """Return the names that installed packages announce at an extension point, sorted; nothing is imported."""
    return tuple(sorted(name for group, name in _announced() if group == GROUPS[point]))


def forget_plugins() -> None:
    """Look again, when next asked: packages were installed or removed while the program runs."""
    _announced.cache_clear()


@cache
def _announced() -> Mapping[tuple[str, str], tuple[EntryPoint, ...]]:
    """Read the entry points of all packages once: that opens a file of each."""
    table: dict[tuple[str, str], tuple[EntryPoint, ...]] = {}
    every = entry_points()
    for group in GROUPS.values():
        for entry in every.select(group=group):
            table[group, entry.name] = (*table.get((group, entry.name), ()), entry)
    return table


def _package(entry: EntryPoint) -> str:
    return "of unknown name" if entry.dist is None else entry.dist.name


def _unusable(point: str, name: str, reason: str) -> UnsupportedMetadataError:
    shown = name[:200]
    return UnsupportedMetadataError(
        f"the {point.replace('_', ' ')} {shown!r} cannot be used: {reason}", point=point, name=shown
    )
