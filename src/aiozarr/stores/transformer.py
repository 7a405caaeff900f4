"""A storage transformer lies between an array's chunks and its store (v3 core, "Storage transformers")."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from aiozarr.plugins import check_class, load_class, unknown
from aiozarr.stores.contract import Store

_POINT = "storage_transformer"
_known: dict[str, type[StorageTransformer]] = {}


class StorageTransformer(ABC):
    """Changes what the chunks of an array are stored as, or how they are fetched.

    A subclass has the class attribute `name`, which documents name it by, and is registered by
    `register_storage_transformer` or an entry point in the group `aiozarr.storage_transformers`. It wraps the store
    that chunks are read from and written to; metadata documents go to the store itself.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        """Build the transformer of the `configuration` member of a document.

        Raises:
            InvalidMetadataError: with `member`.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the `configuration` member."""

    @abstractmethod
    def wrap(self, store: Store, prefix: str) -> Store:
        """Return the store that the chunks of the array below `prefix` (`""`, or ending with `/`) are in.

        Its keys are those of `store`.
        """


class Named(Protocol):
    """A storage transformer as a document names it."""

    @property
    def name(self) -> str: ...
    @property
    def configuration(self) -> Mapping[str, Any]: ...
    @property
    def must_understand(self) -> bool: ...


class _AnyName:
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


ANY_NAME = _AnyName()
"""For readers of documents: whether a transformer is known is found out by `resolve_transformers`."""


def register_storage_transformer(transformer: type[StorageTransformer]) -> type[StorageTransformer]:
    """Make a transformer known by its `name`, which documents may use from now on; also a class decorator.

    Raises:
        TypeError: it is no concrete subclass of `StorageTransformer` with a name.
        ValueError: another class has this name already.
    """
    check_class(transformer, StorageTransformer)
    present = _known.setdefault(transformer.name, transformer)
    if present is not transformer:
        raise ValueError(f"the storage transformer {transformer.name!r} is {present.__qualname__} already")
    return transformer


def resolve_transformers(named: Iterable[Named]) -> tuple[StorageTransformer, ...]:
    """Return the transformers of a document, in its order; those that may be ignored and are not known are.

    Raises:
        UnsupportedMetadataError: one is not known; says how to register it.
        InvalidMetadataError: a configuration is not what the transformer takes.
    """
    found: list[StorageTransformer] = []
    for number, each in enumerate(named):
        kind = _known.get(each.name) or load_class(_POINT, each.name, StorageTransformer)
        if kind is not None:
            found.append(kind.from_json(each.configuration))
        elif each.must_understand:
            raise unknown(_POINT, each.name, _known, member=f"storage_transformers[{number}]")
    return tuple(found)


def wrap_store(store: Store, prefix: str, transformers: Sequence[StorageTransformer]) -> Store:
    """Return `store` behind all transformers: the first one is the one that readers and writers meet."""
    for transformer in reversed(transformers):
        store = transformer.wrap(store, prefix)
    return store
