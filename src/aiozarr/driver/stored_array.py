"""Reads, creates and deletes the document of an array for a spec; the result is an ordinary `Array`."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiozarr.common.concurrency import SingleFlight
from aiozarr.driver.context_resources import PooledChunks, must_recheck
from aiozarr.driver.document_format import Facts
from aiozarr.driver.index_transform import DomainTransform
from aiozarr.driver.spec import Spec
from aiozarr.errors import (
    InvalidSpecError,
    NodeExistsError,
    NodeNotFoundError,
    PreconditionFailedError,
    SpecMismatchError,
    UnsupportedOperationError,
)
from aiozarr.hierarchy import Array, internal
from aiozarr.metadata.document import dump_document
from aiozarr.metadata.formats import parse_node
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.model import Version


@dataclass(frozen=True)
class StoredArray:
    """An array that a spec opened.

    Attributes:
        spec: the spec.
        array: the whole stored array.
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

    async def read(access: internal.NodeAccess, owns_store: bool) -> StoredArray | None:
        found = await read_document(access, spec)
        if found is None:
            return None
        spec.format.match(found[0], spec.metadata, spec.schema, access.url)
        return _stored(spec, access, owns_store, *found)

    async def work(access: internal.NodeAccess, owns_store: bool) -> StoredArray:
        if assumed:
            assert new is not None
            assert not isinstance(new, InvalidSpecError)
            return _stored(spec, access, owns_store, new, None)
        if spec.open:
            if (existing := await read(access, owns_store)) is not None:
                return existing
            if not spec.create:
                raise not_found_error(access, spec)
        if isinstance(new, InvalidSpecError):
            # It is more useful to report that an array exists.
            if await access.scheduled.stat(access.prefix + spec.format.key) is not None:
                raise exists_error(access)
            raise new
        facts = new or spec.format.new(spec.metadata, spec.schema, exact=spec.exact)
        stored = _stored(spec, access, owns_store, facts, None)
        try:
            await _create(access, spec, stored)
        except PreconditionFailedError as error:
            if not spec.open:
                raise exists_error(access) from error
            # Another writer has created it since it was found missing.
            if (existing := await read(access, owns_store)) is None:
                raise not_found_error(access, spec) from error
            return existing
        return stored

    return await internal.run_at_target(
        work,
        spec.kvstore.target,
        "",
        zarr_format=spec.format.number,
        storage_options=dict(spec.kvstore.options) or None,
        settings=spec.settings,
    )


async def read_document(access: internal.NodeAccess, spec: Spec) -> tuple[Facts, Version | None] | None:
    """Read the document of the array.

    Returns: its metadata and its version, or None if nothing is stored.
    """
    key = spec.format.key
    value = await access.scheduled.fetch(access.prefix + key, max_bytes=access.settings.max_metadata_bytes)
    if value is None:
        return None
    return spec.format.read(value.data, node=access.url), value.version


def not_found_error(access: internal.NodeAccess, spec: Spec) -> NodeNotFoundError:
    """Return the error of a document that is not stored."""
    return NodeNotFoundError(
        f"there is no array at {access.url}: {spec.format.key} is not stored; create=true creates it",
        url=access.url,
        path=access.path,
    )


def exists_error(access: internal.NodeAccess) -> NodeExistsError:
    """Return the error of a document that is stored already."""
    return NodeExistsError(
        f"there is an array at {access.url}; open=true opens it, and delete_existing=true first erases everything "
        "stored there",
        url=access.url,
        path=access.path,
    )


def array_metadata(facts: Facts, spec: Spec, node: str) -> ArrayMetadata:
    """Return the metadata as an `Array` has them."""
    documents = {spec.format.key: dump_document(spec.format.document(facts), finite=False)}
    metadata = parse_node(documents, node=node, zarr_format=spec.format.number)
    assert isinstance(metadata, ArrayMetadata)
    # Without a fill value in the document, a write stores every chunk.
    return replace(metadata, has_fill_value=False) if spec.store_data_equal_to_fill_value else metadata


def with_facts(stored: StoredArray, facts: Facts, version: Version | None) -> StoredArray:
    """Return the array with the metadata that are stored now."""
    metadata = array_metadata(facts, stored.spec, stored.array.url)
    array = internal.with_metadata(stored.array, metadata)
    return StoredArray(stored.spec, array, facts, version, time.time())


def _stored(
    spec: Spec, access: internal.NodeAccess, owns_store: bool, facts: Facts, version: Version | None
) -> StoredArray:
    # Making the array checks the metadata as opening does.
    metadata: Any = array_metadata(facts, spec, access.url)
    # The spec determines when stored metadata are read again, and whether they are stored at all.
    options = internal.HandleOptions(access.settings, "r+", owns_store, checks_document=False)
    array = Array(access.store, access.path, metadata, options)
    if spec.cache_pool.backend is not None and spec.recheck_cached_data is not False:
        array = array.with_storage_transformer(PooledChunks(spec.cache_pool, spec.recheck_cached_data))
    return StoredArray(spec, array, facts, version, time.time())


async def _create(access: internal.NodeAccess, spec: Spec, stored: StoredArray) -> None:
    """Store the document if none is stored, and keep consolidated metadata above current.

    Raises:
        PreconditionFailedError: another document is stored.
    """
    internal.check_store_writable(access.store)
    zarr_format = spec.format.number

    async def load(access: internal.NodeAccess) -> tuple[None, Sequence[internal.ConsolidatedGroup]]:
        if spec.delete_existing:
            await internal.check_erasable(access)
        return None, await internal.load_consolidated_ancestors(access, zarr_format)

    async def apply(_: None, access: internal.NodeAccess) -> tuple[None, internal.NodeChanges]:
        if spec.delete_existing:
            await internal.erase_node(access)
        key = access.prefix + spec.format.key
        if access.store.supports.conditional_writes is False and await access.scheduled.stat(key) is not None:
            raise PreconditionFailedError("a document already exists", store=access.store.url, key=key)
        await access.scheduled.set_if_absent(key, dump_document(stored.facts.document(), finite=False))
        return None, [(access.path, stored.array.metadata)]

    await internal.update_nodes([access], internal.group_keys([zarr_format]), load, apply)


_checks: SingleFlight[Hashable] = SingleFlight()


def is_stale(stored: StoredArray) -> bool:
    """Return whether the metadata must be revalidated before they are used."""
    spec = stored.spec
    return not spec.assume_metadata and must_recheck(spec.recheck_cached_metadata, stored.checked)


async def rechecked(stored: StoredArray) -> StoredArray:
    """Return the array with revalidated metadata. Unchanged ones cost a request without data, shared by all readers.

    Raises:
        NodeNotFoundError, SpecMismatchError: as `resolved`.
    """
    spec = stored.spec

    async def check(access: internal.NodeAccess) -> StoredArray:
        checked = time.time()
        key, version = access.prefix + spec.format.key, stored.version

        async def is_current() -> bool:
            entry = await access.scheduled.stat(key)
            return entry is not None and entry.version == version

        has_version = version is not None and not version.weak
        if has_version and await _checks.run((access.store.object_identity(key), version), is_current):
            return replace(stored, checked=checked)
        return await _read_again(access, stored)

    return await internal.run_on_io_thread(stored.array, check)


async def resolved(stored: StoredArray) -> StoredArray:
    """Return the array with the metadata that are stored now.

    Raises:
        NodeNotFoundError: the document is no longer stored.
        SpecMismatchError: another array is stored now.
    """
    if stored.spec.assume_metadata:
        return stored
    return await internal.run_on_io_thread(stored.array, lambda access: _read_again(access, stored))


async def resized(
    stored: StoredArray,
    transform: DomainTransform,
    exclusive_max: Sequence[int | None] | None,
    inclusive_min: Sequence[int | None] | None,
    *,
    delete_chunks: bool,
    expand_only: bool,
    shrink_only: bool,
) -> StoredArray:
    """Change the shape of the stored array, and return it.

    Raises:
        ValueError: a bound cannot be changed, or `expand_only` or `shrink_only` forbids it.
        UnsupportedOperationError: the spec assumes metadata, or is for reading only.
        NodeNotFoundError, SpecMismatchError: as `resolved`.
    """
    url = stored.array.url
    if stored.spec.assume_metadata:
        raise UnsupportedOperationError(f"{url} was opened with assume_metadata=true, so it cannot be resized")
    if not stored.spec.can_write:
        raise UnsupportedOperationError(f"{url} was opened with read=true only", store=stored.array.store.url)
    current_min = transform.domain.inclusive_min
    for dimension, (given, first) in enumerate(
        zip(current_min if inclusive_min is None else inclusive_min, current_min, strict=True)
    ):
        if given is not None and given != first:
            raise ValueError(f"the lower bound of dimension {dimension} is {first} and cannot be changed")
    current = await resolved(stored)
    shape = _new_shape(transform, current.facts.shape, exclusive_max)
    for dimension, (new, old) in enumerate(zip(shape, current.facts.shape, strict=True)):
        if (expand_only and new < old) or (shrink_only and new > old):
            word = "shrink" if new < old else "grow"
            option = "expand_only" if expand_only and new < old else "shrink_only"
            raise ValueError(f"dimension {dimension} would {word} from {old} to {new}, but {option} is set")
    await current.array.resize(shape, delete_chunks=delete_chunks)
    return with_facts(current, current.facts.with_shape(shape), None)


def _new_shape(
    transform: DomainTransform, shape: Sequence[int], exclusive_max: Sequence[int | None] | None
) -> tuple[int, ...]:
    """Return the shape of the array whose view has these upper bounds."""
    ends = [None] * transform.domain.rank if exclusive_max is None else list(exclusive_max)
    if len(ends) != transform.domain.rank:
        raise ValueError(f"expected {transform.domain.rank} bounds, one per dimension, not {len(ends)}")
    new = list(shape)
    for dimension, end in enumerate(ends):
        each = transform.domain[dimension]
        if end is None or end == each.exclusive_max:
            continue
        outputs = [i for i, output in enumerate(transform.outputs) if output.input_dimension == dimension]
        if len(outputs) != 1 or not each.implicit_upper or transform.outputs[outputs[0]].stride != 1:
            raise ValueError(f"the upper bound of dimension {dimension} is explicit and cannot be changed")
        new[outputs[0]] = end + transform.outputs[outputs[0]].offset
    if any(length < 0 for length in new):
        raise ValueError(f"lengths must not be negative, as in the new shape {tuple(new)}")
    return tuple(new)


async def _read_again(access: internal.NodeAccess, stored: StoredArray) -> StoredArray:
    found = await read_document(access, stored.spec)
    if found is None:
        raise not_found_error(access, stored.spec)
    facts, version = found
    if compatibility_key(facts) != compatibility_key(stored.facts):
        raise SpecMismatchError(
            "the stored metadata is no longer compatible with the view",
            member="metadata",
            expected=stored.facts.to_json(),
            found=facts.to_json(),
            url=access.url,
        )
    if facts.shape == stored.facts.shape and stored.version is not None and version == stored.version:
        return replace(stored, checked=time.time())
    return with_facts(stored, facts, version)


def compatibility_key(facts: Facts) -> str:
    """Return the metadata that must not change while a view is open: all but shape, attributes and extensions."""
    fixed = {name: value for name, value in facts.document().items() if not _may_change(name, value)}
    return json.dumps(fixed, sort_keys=True)


def _may_change(name: str, value: object) -> bool:
    is_extension = isinstance(value, Mapping) and value.get("must_understand") is False
    return name in ("shape", "attributes") or is_extension
