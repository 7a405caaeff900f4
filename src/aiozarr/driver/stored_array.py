"""Reads, creates and deletes the document of an array for a spec; the result is an ordinary `Array`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiozarr.driver.context_resources import PooledChunks
from aiozarr.driver.document_format import Facts
from aiozarr.driver.spec import Spec
from aiozarr.errors import InvalidSpecError, NodeExistsError, NodeNotFoundError, PreconditionFailedError
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.mutations.consolidated_update import NodeChanges, update_nodes
from aiozarr.hierarchy.mutations.context import ConsolidatedGroup, group_keys, load_consolidated_ancestors
from aiozarr.hierarchy.mutations.erase import check_erasable, erase_node
from aiozarr.hierarchy.mutations.store_documents import set_if_absent
from aiozarr.hierarchy.node import check_store_writeable
from aiozarr.hierarchy.node_access import NodeAccess, run_at_target
from aiozarr.metadata import ArrayMetadata, parse_node
from aiozarr.model import Version


@dataclass(frozen=True)
class StoredArray:
    """An array that a spec opened.

    Attributes:
        spec: the spec.
        array: the array, which the view is over.
        facts: its metadata.
        version: the version of the stored document; None if it was not read or has none.
        checked: Unix time when the document was read.
    """

    spec: Spec
    array: Array
    facts: Facts
    version: Version | None
    checked: float


async def open_stored(spec: Spec) -> StoredArray:
    """Open, or create, the array of a spec. Metadata are complete before anything is written.

    Raises:
        NodeNotFoundError: there is no array, and the spec does not create one.
        NodeExistsError: there is an array, and the spec does not open one.
        SpecMismatchError: the stored array does not match the spec.
        InvalidSpecError: the constraints do not determine an array.
        InvalidMetadataError: the stored document is not valid.
        UnsupportedOperationError: the store cannot write.
        StoreError: the store could not be read or written.
    """
    # Without I/O, so that a spec that determines no array never touches the store.
    assumed = spec.assume_metadata or spec.assume_cached_metadata
    new: Facts | InvalidSpecError | None = None
    if assumed or not spec.open:
        try:
            new = spec.format.new(spec.metadata, spec.schema, exact=spec.exact)
        except InvalidSpecError as error:
            if assumed or spec.delete_existing:
                raise
            new = error

    async def work(access: NodeAccess, owns_store: bool) -> StoredArray:
        if assumed:
            assert new is not None
            assert not isinstance(new, InvalidSpecError)
            return _stored(spec, access, owns_store, new, None)
        if spec.open:
            found = await read_document(access, spec)
            if found is not None:
                facts, version = found
                spec.format.match(facts, spec.metadata, spec.schema, access.url)
                return _stored(spec, access, owns_store, facts, version)
            if not spec.create:
                raise not_found_error(access, spec)
        if isinstance(new, InvalidSpecError):
            # That there is an array is the more useful error.
            if await access.scheduled.stat(access.prefix + document_key(spec)) is not None:
                raise exists_error(access)
            raise new
        facts = new or spec.format.new(spec.metadata, spec.schema, exact=spec.exact)
        stored = _stored(spec, access, owns_store, facts, None)
        try:
            await _create(access, spec, stored)
        except PreconditionFailedError as error:
            if not spec.open:
                raise exists_error(access) from error
            # Another writer has created it since it was looked for.
            found = await read_document(access, spec)
            if found is None:
                raise not_found_error(access, spec) from error
            spec.format.match(found[0], spec.metadata, spec.schema, access.url)
            return _stored(spec, access, owns_store, *found)
        return stored

    return await run_at_target(
        work,
        spec.kvstore.target,
        "",
        zarr_format=spec.format.number,
        storage_options=dict(spec.kvstore.options) or None,
        settings=spec.settings,
    )


async def read_document(access: NodeAccess, spec: Spec) -> tuple[Facts, Version | None] | None:
    """Read the document of the array.

    Returns: its metadata and its version, or None if nothing is stored.
    """
    key = document_key(spec)
    value = await access.scheduled.fetch(access.prefix + key, max_bytes=access.settings.max_metadata_bytes)
    if value is None:
        return None
    return spec.format.read(value.data, access.url), value.version


def document_key(spec: Spec) -> str:
    """Return the key of the document, relative to the array."""
    return spec.format.key


def not_found_error(access: NodeAccess, spec: Spec) -> NodeNotFoundError:
    """Return the error of a document that is not stored."""
    return NodeNotFoundError(
        f"there is no array at {access.url}: {document_key(spec)} is not stored; create=true creates it",
        url=access.url,
        path=access.path,
    )


def exists_error(access: NodeAccess) -> NodeExistsError:
    """Return the error of a document that is stored already."""
    return NodeExistsError(
        f"there is an array at {access.url}; open=true opens it, delete_existing=true erases everything stored there "
        "first",
        url=access.url,
        path=access.path,
    )


def array_metadata(facts: Facts, spec: Spec, node: str) -> ArrayMetadata:
    """Return the metadata in the terms of the array."""
    documents = {document_key(spec): render(spec.format.document(facts))}
    metadata = parse_node(documents, node=node, zarr_format=spec.format.number)
    assert isinstance(metadata, ArrayMetadata)
    # Without a fill value in the document, a write stores every chunk.
    return replace(metadata, has_fill_value=False) if spec.store_data_equal_to_fill_value else metadata


def render(members: Mapping[str, Any]) -> bytes:
    """Return the document with these members."""
    return json.dumps(members, indent=2, ensure_ascii=False).encode()


def with_facts(stored: StoredArray, facts: Facts, version: Version | None) -> StoredArray:
    """Return the array with other metadata: those that are stored now."""
    metadata = array_metadata(facts, stored.spec, stored.array.url)
    array = stored.array._with_metadata(metadata)
    return StoredArray(stored.spec, array, facts, version, time.time())


def _stored(spec: Spec, access: NodeAccess, owns_store: bool, facts: Facts, version: Version | None) -> StoredArray:
    # Making the array checks the metadata as opening does.
    metadata: Any = array_metadata(facts, spec, access.url)
    # Specs say themselves when stored metadata are read again, or are not stored at all.
    array = Array(
        access.store,
        access.path,
        metadata,
        settings=access.settings,
        mode="r+",
        owns_store=owns_store,
        checks_document=False,
    )
    if spec.cache_pool.backend is not None and spec.recheck_cached_data is not False:
        array = array.with_storage_transformer(PooledChunks(spec.cache_pool, spec.recheck_cached_data))
    return StoredArray(spec, array, facts, version, time.time())


async def _create(access: NodeAccess, spec: Spec, stored: StoredArray) -> None:
    """Store the document if none is stored, and keep consolidated metadata above current.

    Raises:
        PreconditionFailedError: another document is stored.
    """
    check_store_writeable(access.store)
    zarr_format = spec.format.number

    async def load(access: NodeAccess) -> tuple[None, Sequence[ConsolidatedGroup]]:
        if spec.delete_existing:
            await check_erasable(access)
        return None, await load_consolidated_ancestors(access, zarr_format)

    async def apply(_: None, access: NodeAccess) -> tuple[None, NodeChanges]:
        if spec.delete_existing:
            await erase_node(access)
        key = access.prefix + document_key(spec)
        if access.store.supports.conditional_writes is False and await access.scheduled.stat(key) is not None:
            raise PreconditionFailedError("a document is stored already", store=access.store.url, key=key)
        await set_if_absent(access, key, render(stored.facts.document()))
        return None, [(access.path, stored.array.metadata)]

    await update_nodes([access], group_keys([zarr_format]), load, apply)
