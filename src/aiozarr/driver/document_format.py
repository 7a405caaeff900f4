"""The formats of the drivers: what parses, makes, reads and compares the metadata of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from typing_extensions import Buffer

from aiozarr.codecs.serializers.storage_type import has_byte_order
from aiozarr.driver.array_facts import ArrayFacts
from aiozarr.driver.codec_resolve import Elements, resolve_chain
from aiozarr.driver.conflicts import SpecConflictError
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import JSON
from aiozarr.driver.matching import check_metadata, check_schema
from aiozarr.driver.metadata_constraints import MetadataConstraints
from aiozarr.driver.new_array import effective_domain, new_array
from aiozarr.driver.schema import Schema
from aiozarr.driver.stored_document import parse_stored
from aiozarr.driver.zarr2 import Zarr2Constraints, Zarr2Facts, check_zarr2, new_zarr2, parse_zarr2, zarr2_domain
from aiozarr.errors import SpecMismatchError
from aiozarr.metadata import rules_of

Constraints: TypeAlias = MetadataConstraints | Zarr2Constraints
Facts: TypeAlias = ArrayFacts | Zarr2Facts


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        number: version of the Zarr format.
        adapter: the name of the driver in URL pipelines.
        parse: parses the `metadata` of a spec.
        new: makes the metadata of a new array from constraints; without I/O.
        read: parses a stored document, of the node at this URL.
        check: raises `SpecConflictError` unless metadata satisfy the constraints.
        domain: the domain that constraints determine; None if they leave it open.
        document: the document of which the array's own metadata are made.
        with_shape: the metadata with another shape.
    """

    number: int
    adapter: str
    parse: Callable[[JSON, str], Constraints]
    new: Callable[..., Facts]
    read: Callable[[Buffer, str], Facts]
    check: Callable[[Any, Any, Schema], None]
    domain: Callable[[Any, Schema], IndexDomain | None]
    document: Callable[[Any], dict[str, JSON]]
    with_shape: Callable[[Any, tuple[int, ...]], Facts]

    @property
    def key(self) -> str:
        """The key of the document, relative to the array."""
        return rules_of(self.number).array_key

    def match(self, facts: Facts, metadata: Constraints, schema: Schema, url: str) -> None:
        """Check that a stored array satisfies the constraints of a spec.

        Raises:
            SpecMismatchError: it does not; the error has the member, the constraint, and what is stored.
            InvalidSpecError: a constraint is of another driver.
        """
        try:
            self.check(facts, metadata, schema)
        except SpecConflictError as error:
            raise SpecMismatchError(
                f"the stored array does not match the spec: {error.message}",
                member=error.member,
                expected=error.expected,
                found=error.found,
                url=url,
            ) from None


def _check_zarr3(facts: ArrayFacts, metadata: MetadataConstraints, schema: Schema) -> None:
    check_metadata(facts, metadata)
    check_schema(facts, schema)


def _explicit_document(facts: ArrayFacts) -> dict[str, JSON]:
    """Return the document with the orders of transposes written out, which stored ones may have as "C" and "F"."""
    byte_order = has_byte_order(facts.data_type.dtype)
    elements = Elements(facts.rank, facts.data_type.dtype.itemsize, byte_order, facts.chunk_shape)
    return replace(facts, codecs=resolve_chain(facts.codecs, elements, "metadata.codecs")).document()


FORMATS: dict[str, Format] = {
    "zarr3": Format(
        number=3,
        adapter="zarr3",
        parse=MetadataConstraints.parse,
        new=new_array,
        read=lambda data, node: parse_stored(data, node=node, key=rules_of(3).array_key),
        check=_check_zarr3,
        domain=effective_domain,
        document=_explicit_document,
        with_shape=lambda facts, shape: replace(facts, shape=shape),
    ),
    "zarr": Format(
        number=2,
        adapter="zarr2",
        parse=Zarr2Constraints.parse,
        new=new_zarr2,
        read=lambda data, node: parse_zarr2(data, node=node),
        check=check_zarr2,
        domain=zarr2_domain,
        document=Zarr2Facts.document,
        with_shape=Zarr2Facts.with_shape,
    ),
}
