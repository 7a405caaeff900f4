"""Extensions: named in documents with their members, and found in entry points of packages, imported on first use."""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from aiozarr.errors import UnsupportedMetadataError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Kind = TypeVar("Kind", bound=type[Any])


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
"""Entry point group of each extension point. The name of an entry point is the name in documents."""

_MAX_SHARED_RESULTS = 256
_MAX_SHARED_BYTES = 4096
"""Results for longer descriptions, such as that of an irregular grid, are not shared."""

_MAX_LISTED_NAMES = 8
"""Maximum number of names in a message."""

_REGISTER = {
    "codec": "aiozarr.codecs.register_codec",
    "data_type": "aiozarr.metadata.register_data_type",
    "chunk_grid": "aiozarr.grid.register_chunk_grid",
    "chunk_key_encoding": "aiozarr.grid.register_chunk_key_encoding",
    "storage_transformer": "aiozarr.stores.register_storage_transformer",
    "store": "aiozarr.stores.register_store",
}


def load_plugin(point: str, name: str) -> object | None:
    """Return the object that an installed package registers under exactly this `name`.

    A name in a document selects among installed entry points only. Nothing else is imported.

    Args:
        point: the extension point, a key of `GROUPS`.
        name: the name in a document; for stores, the scheme of a URL.

    Returns: the object, or None if no package has an entry point of this name.

    Raises:
        UnsupportedMetadataError: the package cannot be imported, or several packages register the name.
    """
    found = _announced().get((GROUPS[point], name), ())
    if not found:
        return None
    if len({each.value for each in found}) > 1:
        packages = " and ".join(sorted({_package(each) for each in found}))
        raise _unusable(point, name, f"the packages {packages} both register it")
    entry = found[0]
    try:
        # Not cached, because Python imports a module once, in one thread.
        plugin: object = entry.load()
    except Exception as error:
        reason = f"the package {_package(entry)} announces it as {entry.value}, which fails to load: {error!r}"
        raise _unusable(point, name, reason) from error
    return plugin


def load_class(point: str, name: str, *kinds: type) -> Any:
    """Return the class that `load_plugin` finds, or None if it finds nothing.

    Raises:
        UnsupportedMetadataError: as `load_plugin`, or the object is not a concrete subclass of one of `kinds`.
    """
    plugin = load_plugin(point, name)
    if plugin is not None:
        try:
            check_class(plugin, *kinds, named=False)
        except TypeError as error:
            raise wrong_entry_point(point, name, str(error)) from None
    return plugin


_registrations = 0


def _note_registration() -> None:
    global _registrations
    _registrations += 1


class ClassRegistry(Generic[T]):
    """The classes of one extension point by name: registered classes, built-in classes, classes of installed packages.

    Args:
        point: the extension point, a key of `GROUPS`.
        kinds: a class is a concrete subclass of one of these.
        package: the package of aiozarr with further classes.
        modules: the names of each of its modules, separated by spaces. A module is imported for the first of its names.
        aliases: earlier names of classes, which are found and never listed.

    Attributes:
        classes: the classes that are registered so far.
        built_in: the module of each class of aiozarr itself, by name.
    """

    def __init__(
        self,
        point: str,
        *kinds: type,
        package: str,
        modules: Mapping[str, str],
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.classes: dict[str, type[T]] = {}
        self.built_in = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}
        self._point = point
        self._kinds = kinds
        self._aliases = aliases

    def register(self, kind: Kind) -> Kind:
        """Register a class under its `name`; raises the errors of `check_class`."""
        check_class(kind, *self._kinds)
        self.add(kind.name, kind)
        return kind

    def add(self, name: str, kind: type[Any]) -> None:
        """Register a class under a name. A built-in class never replaces a registered one."""
        if self.built_in.get(name) == kind.__module__:
            self.classes.setdefault(name, kind)
        else:
            self.classes[name] = kind
            _note_registration()

    def find(self, name: str) -> type[T] | None:
        """Return the class that is registered under a name. The module of a built-in class is imported."""
        name = self._aliases.get(name, name)
        if name not in self.classes and name in self.built_in:
            import_module(self.built_in[name])
        return self.classes.get(name)

    def resolve(self, name: str, *, member: str) -> type[T]:
        """Return the class that `find` or else `load_class` finds.

        Raises:
            UnsupportedMetadataError: an unknown name, or a package that cannot be imported.
        """
        found: type[T] | None = self.find(name) or load_class(self._point, name, *self._kinds)
        if found is None:
            raise unknown_extension(self._point, name, {*self.classes, *self.built_in}, member=member)
        return found


def check_class(given: object, *kinds: type, named: bool = True) -> None:
    """Check that an extension is a concrete subclass of one of `kinds`, and has a `name` if `named`.

    Raises:
        TypeError: it is not; the message names the missing part.
    """
    wanted = " or ".join(kind.__qualname__ for kind in kinds)
    if not isinstance(given, type) or not issubclass(given, kinds):
        raise TypeError(f"expected a subclass of {wanted}, got {repr(given)[:200]}")
    if inspect.isabstract(given):
        missing = ", ".join(sorted(getattr(given, "__abstractmethods__", ())))
        raise TypeError(f"{given.__name__} is abstract; it needs {missing}")
    name = getattr(given, "name", None)
    if named and (not isinstance(name, str) or not name):
        raise TypeError(f"{given.__name__} needs a class attribute `name`, a non-empty str")


def wrong_entry_point(point: str, name: str, reason: str) -> UnsupportedMetadataError:
    """Return the error for an entry point that loads but does not fit its extension point."""
    entry = _announced()[GROUPS[point], name][0]
    return _unusable(point, name, f"the package {_package(entry)} announces it as {entry.value}: {reason}")


def unknown_extension(point: str, name: str, known: Iterable[str], *, member: str) -> UnsupportedMetadataError:
    """Return the error for an unknown name, with similar names and the way to register one."""
    shown = name[:200]
    names = _suggestions(shown, sorted({*known, *entry_point_names(point)}))
    return UnsupportedMetadataError(
        f"unknown {point.replace('_', ' ')} {shown!r}; {names} To add one, call "
        f"{_REGISTER[point]} or install a package with an entry point in the group {GROUPS[point]!r}",
        member=member,
        point=point,
        name=shown,
    )


def _suggestions(name: str, known: list[str]) -> str:
    """Return the nearest name for a message, and other similar ones; if none is similar, all names if they are few."""
    # The prefix may be missing or wrong, so last components are compared as well.
    last = name.rpartition(".")[2]
    close = [each for each in known if each.rpartition(".")[2] == last]
    from difflib import get_close_matches  # imported here because few names are wrong

    close += [each for each in get_close_matches(name, known, n=_MAX_LISTED_NAMES) if each not in close]
    if len(known) <= _MAX_LISTED_NAMES:
        nearest = f"did you mean {close[0]!r}? " if close else ""
        return f"{nearest}known: {', '.join(known) or 'none'}."
    if not close:
        return f"none of the {len(known)} known names is similar."
    others = ", ".join(close[1:_MAX_LISTED_NAMES])
    return f"did you mean {close[0]!r}?{others and f' Similar: {others}.'}"


def entry_point_names(point: str) -> tuple[str, ...]:
    """Return the sorted entry point names of an extension point, without importing them."""
    return tuple(sorted(name for group, name in _announced() if group == GROUPS[point]))


def clear_entry_points() -> None:
    """Clear the cache of entry points, after packages were installed or removed while the program runs."""
    _announced.cache_clear()
    _note_registration()


@cache
def _announced() -> Mapping[tuple[str, str], tuple[EntryPoint, ...]]:
    """Return the entry points by group and name, cached because reading them opens a file of each package."""
    table: dict[tuple[str, str], tuple[EntryPoint, ...]] = {}
    from importlib.metadata import entry_points  # takes 15 ms, and most programs need no plugin

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


class NamedConfiguration(Protocol):
    """An extension in a metadata document: its name and its configuration."""

    @property
    def name(self) -> str:
        """The name in the registry of its extension point."""
        ...

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The `configuration` member; empty if the document has none."""
        ...


class SharedResults(Generic[T]):
    """Results made from descriptions in JSON, shared by all callers with equal ones. Used by any thread.

    Results must not be changed. They are made again after a registration, because a name may then mean another class.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, T] = {}

    def get(self, described: Any, *others: Hashable, make: Callable[[], T]) -> T:
        """Return the result for this description and these `others`; `make()` if there is none yet."""
        try:
            # Not the values themselves, because True and 1.0 equal 1, and an extension may refuse them.
            description = marshal.dumps(described, 2)
        except ValueError:
            return make()  # of other types than JSON's
        if len(description) + sum([len(each) for each in others if isinstance(each, bytes)]) > _MAX_SHARED_BYTES:
            return make()
        key = (description, *others, _registrations)
        found = self._made.get(key)
        if found is None:
            found = make()
            if len(self._made) >= _MAX_SHARED_RESULTS:
                self._made.clear()
            self._made[key] = found
        return found


def check_members(
    configuration: Mapping[str, Any], known: Collection[str], *, point: str, name: str, member: str | None = None
) -> None:
    """Check that `configuration` has no unknown member that a reader must understand.

    `member` is its path in the document; None: the `configuration` of the extension point.

    Raises:
        UnsupportedMetadataError: a member is not in `known` and has no `"must_understand": false`.
    """
    for key, value in configuration.items():
        if key not in known and not (isinstance(value, Mapping) and value.get("must_understand") is False):
            reason = f"{point.replace('_', ' ')} {name!r} has no member {key!r}"
            path = f"{member or f'{point}.configuration'}.{key}"
            raise UnsupportedMetadataError(reason, member=path, point=point, name=name)
