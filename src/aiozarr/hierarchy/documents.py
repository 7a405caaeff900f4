"""Reads the metadata documents of one node, and what lies above and below it; runs on the I/O thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiozarr.engine import Engine, Session
from aiozarr.errors import (
    LimitError,
    NodeNotFoundError,
    PermissionDeniedError,
    StoreError,
    UnauthenticatedError,
)
from aiozarr.hierarchy.location import ancestors, key_prefix, node_url
from aiozarr.metadata import (
    DOCUMENT_KEYS,
    ArrayMetadata,
    GroupMetadata,
    parse_node,
    probe_keys,
    rules_of,
)
from aiozarr.model import Value
from aiozarr.schedule import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.tasks import together
from aiozarr.stores.transformer import ANY_NAME

NodeMetadata: TypeAlias = ArrayMetadata | GroupMetadata
Documents: TypeAlias = Mapping[str, Value | None]


@dataclass(frozen=True)
class Place:
    """One node's place, with what is needed to work there."""

    engine: Engine
    store: Store
    path: str
    settings: Settings
    recorder: Report | None = None
    target: str | None = None
    """Where a change is carried out from a group above the target that was named: the path of that target's root."""

    @property
    def session(self) -> Session:
        """The store with retries and budget."""
        return self.engine.session(self.store, self.settings, self.recorder)

    @property
    def prefix(self) -> str:
        """The prefix of the node's keys."""
        return key_prefix(self.path)

    @property
    def url(self) -> str:
        """The node's URL."""
        return node_url(self.store, self.path)

    def at(self, path: str) -> Place:
        """Return the place of another node of the same store."""
        return replace(self, path=path)


def check_format(zarr_format: object) -> None:
    """Refuse a `zarr_format` that is none.

    Raises:
        ValueError: it is not 1, 2, 3 or None.
    """
    if zarr_format is not None and (isinstance(zarr_format, bool) or zarr_format not in DOCUMENT_KEYS):
        raise ValueError(f"zarr_format is 1, 2, 3 or None, not {zarr_format!r}")


def implicit_group(zarr_format: int = 3) -> GroupMetadata:
    """Return the metadata of a group without a document (v3 core specification, "Explicit vs implicit groups")."""
    return GroupMetadata(zarr_format=zarr_format, attributes={}, extra={})


async def read_documents(place: Place, keys: Iterable[str]) -> Documents:
    """Fetch these documents of the node, all at once. Refusals count only if nothing else is there.

    Raises:
        LimitError: a document is larger than `Settings.max_metadata_bytes`.
    """
    session = place.session
    refusals: dict[str, StoreError] = {}

    async def fetch(key: str) -> Value | None:
        try:
            return await session.fetch(place.prefix + key, max_bytes=place.settings.max_metadata_bytes)
        except StoreError as refusal:
            if not _refuses(refusal):
                raise
            refusals[key] = refusal
            return None
        except LimitError as error:
            error.limit = "max_metadata_bytes"
            raise

    wanted = tuple(keys)
    values = await together(fetch(key) for key in wanted)
    if refusals and not any(value is not None for value in values):
        refusal = refusals[next(key for key in wanted if key in refusals)]
        refusal.message = f"the metadata of {place.url} could not be read: {refusal.message}"
        refusal.range = None  # all of the document was wanted: the bound of its size is none of the user's
        raise refusal
    return dict(zip(wanted, values, strict=True))


def parse_documents(place: Place, documents: Documents, zarr_format: int | None = None) -> NodeMetadata | None:
    """Return what the documents say; None: there are none."""
    data = {key: None if value is None else value.data for key, value in documents.items()}
    return parse_node(
        data, node=place.url, settings=place.settings, zarr_format=zarr_format, storage_transformers=ANY_NAME
    )


async def read_explicit(place: Place, zarr_format: int | None = None) -> NodeMetadata | None:
    """Return the metadata of the node that has documents, of this format or, with None, of any; None: there is none."""
    return parse_documents(place, await read_documents(place, probe_keys(zarr_format)), zarr_format)


async def read_node(place: Place, zarr_format: int | None = None) -> NodeMetadata | None:
    """Return the metadata of the node, an implicit group where only keys below it are stored; None: there is none."""
    found = await read_explicit(place, zarr_format)
    if found is not None or not place.store.supports.listable:
        return found
    if zarr_format is not None and not rules_of(zarr_format).has_implicit_groups:
        return None
    implicit, other = await _look_closer(place, zarr_format)
    return implicit_group() if implicit and other is None else None


async def read_child(place: Place, zarr_format: int) -> NodeMetadata | None:
    """Return the metadata of a node below a group of this format; one of another format counts if it has documents."""
    found = await read_explicit(place, zarr_format)
    if found is not None:
        return found
    if not rules_of(zarr_format).has_implicit_groups or not place.store.supports.listable:
        return await read_other_format(place, zarr_format)
    implicit, other = await _look_closer(place, zarr_format)
    return implicit_group() if other is None and implicit else other


async def read_other_format(place: Place, zarr_format: int | None) -> NodeMetadata | None:
    """Return the node of another format than this; with None all were looked for already. Refusals show nothing."""
    if zarr_format is None:
        return None
    own = probe_keys(zarr_format)
    try:
        documents = await read_documents(place, [key for key in probe_keys() if key not in own])
    except StoreError as error:
        if _refuses(error):
            return None
        raise
    return parse_documents(place, documents)


async def require_node(place: Place, zarr_format: int | None = None) -> NodeMetadata:
    """Return the metadata of the node at `place`.

    Raises:
        NodeNotFoundError: there is none; where there is one of another format, it says so.
    """
    found = await read_node(place, zarr_format)
    if found is None:
        other = None if zarr_format is None else await read_other_format(place, zarr_format)
        raise node_not_found(place, zarr_format, other)
    return found


def node_not_found(
    place: Place, zarr_format: int | None = None, other: NodeMetadata | None = None
) -> NodeNotFoundError:
    """Return the error that says that there is no node, or one of another format only."""
    error = node_not_found_at(place.store, place.path)
    if zarr_format is not None and other is not None:
        kind = "an array" if isinstance(other, ArrayMetadata) else "a group"
        error.message = (
            f"there is nothing of Zarr format {zarr_format} at {place.url}, but {kind} of {other.zarr_format}"
        )
    return error


def node_not_found_at(store: Store, path: str) -> NodeNotFoundError:
    """Return the error that says that there is no node at `path`."""
    url = node_url(store, path)
    return NodeNotFoundError(f"there is no array and no group at {url}", url=url, path=path)


async def anything_below(place: Place) -> bool:
    """Return whether any key is stored below the node; looks at the first one only.

    Where listing is not possible or not allowed, what cannot be seen is not there.
    """
    if not place.store.supports.listable:
        return False
    entries = place.session.scan(place.prefix)
    try:
        async for _ in entries:
            return True
        return False
    except (PermissionDeniedError, UnauthenticatedError):
        return False
    finally:
        if isinstance(entries, AsyncGenerator):
            await entries.aclose()


def _refuses(error: StoreError) -> bool:
    """Return whether one document is kept from us, and others may not be.

    A 404 that is an error, such as one behind a redirect, does not say that the document is missing either.
    """
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or error.status == 404


# --- helpers -----------------------------------------------------------------------------------------------------


async def _look_closer(place: Place, zarr_format: int | None) -> tuple[bool, NodeMetadata | None]:
    """Return whether there is an implicit group, and the node of another format: one round trip for both."""
    work: list[Coroutine[Any, Any, Any]] = [_is_implicit(place), read_other_format(place, zarr_format)]
    implicit, other = await together(work)
    return implicit, other


async def _is_implicit(place: Place) -> bool:
    """Return whether keys lie below the place, and no array above it, whose chunks they would be."""
    is_array: list[bool] = []

    async def look_up(path: str) -> bool:
        is_array.append(isinstance(await read_explicit(place.at(path)), ArrayMetadata))
        return False

    below = await together([*(look_up(path) for path in ancestors(place.path)), anything_below(place)])
    return below[-1] and not any(is_array)
