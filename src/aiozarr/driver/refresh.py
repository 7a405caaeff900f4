"""Keeps a view's metadata current: revalidation before reads, resolving of bounds, and resizing."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from aiozarr.concurrency import SingleFlight
from aiozarr.driver.context_resources import must_recheck
from aiozarr.driver.document_format import Facts
from aiozarr.driver.index_transform import DomainTransform
from aiozarr.driver.stored_array import StoredArray, document_key, not_found_error, read_document, with_facts
from aiozarr.errors import SpecMismatchError, UnsupportedOperationError
from aiozarr.hierarchy.node_access import NodeAccess

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

    async def check(access: NodeAccess) -> StoredArray:
        checked = time.time()
        key, version = access.prefix + document_key(spec), stored.version

        async def is_current() -> bool:
            entry = await access.scheduled.stat(key)
            return entry is not None and entry.version == version

        has_version = version is not None and not version.weak
        if has_version and await _checks.run((access.store.object_identity(key), version), is_current):
            return replace(stored, checked=checked)
        return await _read_again(access, stored)

    return await stored.array._run_on_io_thread(check)


async def resolved(stored: StoredArray) -> StoredArray:
    """Return the array with the metadata that are stored now.

    Raises:
        NodeNotFoundError: the document is no longer stored.
        SpecMismatchError: another array is stored now.
    """
    if stored.spec.assume_metadata:
        return stored
    return await stored.array._run_on_io_thread(lambda access: _read_again(access, stored))


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
    _check_lower(transform, inclusive_min)
    current = await resolved(stored)
    shape = _new_shape(transform, current.facts.shape, exclusive_max)
    for dimension, (new, old) in enumerate(zip(shape, current.facts.shape, strict=True)):
        if (expand_only and new < old) or (shrink_only and new > old):
            word = "shrink" if new < old else "grow"
            option = "expand_only" if expand_only and new < old else "shrink_only"
            raise ValueError(f"dimension {dimension} would {word} from {old} to {new}, and {option} is given")
    await current.array.resize(shape, delete_chunks=delete_chunks)
    facts = stored.spec.format.with_shape(current.facts, shape)
    return with_facts(current, facts, None)


def _check_lower(transform: DomainTransform, inclusive_min: Sequence[int | None] | None) -> None:
    for dimension, (given, each) in enumerate(
        zip(inclusive_min or (), transform.domain.dimensions, strict=inclusive_min is not None)
    ):
        if given is not None and given != each.inclusive_min:
            raise ValueError(f"the lower bound of dimension {dimension} is {each.inclusive_min} and cannot be changed")


def _new_shape(
    transform: DomainTransform, shape: Sequence[int], exclusive_max: Sequence[int | None] | None
) -> tuple[int, ...]:
    """Return the shape of the array whose view has these upper bounds."""
    ends = [None] * transform.domain.rank if exclusive_max is None else list(exclusive_max)
    if len(ends) != transform.domain.rank:
        raise ValueError(f"{len(ends)} bounds for {transform.domain.rank} dimensions")
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
        raise ValueError(f"the array would get the shape {tuple(new)}")
    return tuple(new)


async def _read_again(access: NodeAccess, stored: StoredArray) -> StoredArray:
    found = await read_document(access, stored.spec)
    if found is None:
        raise not_found_error(access, stored.spec)
    facts, version = found
    if compatibility_key(facts) != compatibility_key(stored.facts):
        raise SpecMismatchError(
            "the stored metadata are no longer compatible with those of the view",
            member="metadata",
            expected=stored.facts.to_json(),
            found=facts.to_json(),
            url=access.url,
        )
    if facts.shape == stored.facts.shape and stored.version is not None and version == stored.version:
        return replace(stored, checked=time.time())
    return with_facts(stored, facts, version)


def compatibility_key(facts: Facts) -> str:
    """Return what must not change while a view is open: everything but shape, attributes and extensions."""
    fixed = {name: value for name, value in facts.document().items() if not _may_change(name, value)}
    return json.dumps(fixed, sort_keys=True)


def _may_change(name: str, value: object) -> bool:
    is_extension = isinstance(value, Mapping) and value.get("must_understand") is False
    return name in ("shape", "attributes") or is_extension
