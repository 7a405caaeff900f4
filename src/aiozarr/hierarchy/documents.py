"""Reads the metadata documents of one node, and what lies above and below it; runs on the I/O thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from aiozarr.engine import Engine, Session
from aiozarr.errors import (
    LimitError,
    NodeNotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedMetadataError,
)
from aiozarr.hierarchy.location import ancestors, key_prefix, node_url
from aiozarr.metadata import OTHER_KEYS, PROBE_KEYS, ArrayMetadata, GroupMetadata, parse_node
from aiozarr.model import Value
from aiozarr.schedule import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.tasks import together

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
    """Refuse a `zarr_format` that is not known.

    Raises:
        UnsupportedMetadataError: formats 1 and 2.
        ValueError: anything that is no Zarr format.
    """
    if zarr_format is None or (zarr_format == 3 and not isinstance(zarr_format, bool)):
        return
    if zarr_format in (1, 2) and not isinstance(zarr_format, bool):
        raise UnsupportedMetadataError(
            f"Zarr format {zarr_format} is not supported yet; format 3 is", point="zarr_format", name=str(zarr_format)
        )
    raise ValueError(f"zarr_format is 1, 2, 3 or None, not {zarr_format!r}")


def implicit_group() -> GroupMetadata:
    """Return the metadata of a group without a document (v3 core specification, "Explicit vs implicit groups")."""
    return GroupMetadata(zarr_format=3, attributes={}, extra={})


async def read_documents(place: Place) -> Documents:
    """Fetch every document that a node may have, all at once. Refusals count only if nothing else is there.

    Raises:
        LimitError: a document is larger than `Settings.max_metadata_bytes`.
    """
    session = place.session
    refusals: list[Exception] = []

    async def fetch(key: str) -> Value | None:
        try:
            return await session.fetch(place.prefix + key, max_bytes=place.settings.max_metadata_bytes)
        except (PermissionDeniedError, UnauthenticatedError) as refusal:
            refusals.append(refusal)
            return None
        except LimitError as error:
            error.limit = "max_metadata_bytes"
            raise

    values = await together(fetch(key) for key in PROBE_KEYS)
    if refusals and not any(value is not None for value in values):
        raise refusals[0]
    return dict(zip(PROBE_KEYS, values, strict=True))


def parse_documents(place: Place, documents: Documents) -> NodeMetadata | None:
    """Return what the documents say; None: there are none."""
    data = {key: None if value is None else value.data for key, value in documents.items()}
    return parse_node(data, node=place.url, settings=place.settings)


async def read_explicit(place: Place) -> NodeMetadata | None:
    """Return the metadata of the node that has documents; None: there is none."""
    return parse_documents(place, await read_documents(place))


async def read_node(place: Place) -> NodeMetadata | None:
    """Return the metadata of the node, an implicit group where only keys below it are stored; None: there is none."""
    found = await read_explicit(place)
    if found is not None or not place.store.supports.listable:
        return found
    above, below = await read_surroundings(place)
    if below and not any(isinstance(metadata, ArrayMetadata) for metadata in above.values()):
        await refuse_other_formats(place)
        return implicit_group()
    return None


async def refuse_other_formats(place: Place) -> None:
    """Raise where the node has documents of a format that is not read yet.

    Raises:
        UnsupportedMetadataError: naming node, key and format.
    """
    entries = await together(place.session.stat(place.prefix + key) for key in OTHER_KEYS)
    for (key, number), entry in zip(OTHER_KEYS.items(), entries, strict=True):
        if entry is not None:
            raise UnsupportedMetadataError(
                f"the node is stored in Zarr format {number}, which is not supported yet",
                node=place.url,
                key=place.prefix + key,
                point="zarr_format",
                name=str(number),
            )


def node_not_found(place: Place) -> NodeNotFoundError:
    """Return the error that says that there is no node."""
    return NodeNotFoundError(f"there is no array and no group at {place.url}", url=place.url, path=place.path)


async def read_surroundings(place: Place) -> tuple[dict[str, NodeMetadata | None], bool]:
    """Return the explicit nodes above the place, by path, and whether anything is stored below it: one round trip."""
    paths = ancestors(place.path)
    above: dict[str, NodeMetadata | None] = {}

    async def look_up(path: str) -> bool:
        above[path] = await read_explicit(place.at(path))
        return False

    below = await together([*(look_up(path) for path in paths), anything_below(place)])
    return {path: above[path] for path in paths}, below[-1]


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
