"""The rules by which the metadata of an array satisfy the constraints of a spec."""

from __future__ import annotations

from collections.abc import Mapping

from aiozarr.driver.array_facts import ArrayFacts
from aiozarr.driver.chunk_layout import ChunkLayout
from aiozarr.driver.conflicts import SpecConflictError
from aiozarr.driver.data_types import fill_json, same_bits
from aiozarr.driver.json_members import JSON, invalid, same_json
from aiozarr.driver.metadata_constraints import UNITS, MetadataConstraints
from aiozarr.driver.schema import Schema
from aiozarr.driver.unit import merge_units, render_units


def check_metadata(facts: ArrayFacts, metadata: MetadataConstraints) -> None:
    """Check the constraints on the document.

    Shape, data type, chunk shape, chunk keys, fill value and names must be equal. Attributes and extensions must be
    contained. Codecs must be the same, with at least the given options.

    Raises:
        SpecConflictError: one is not satisfied.
    """
    if metadata.data_type is not None:
        _equal("metadata.data_type", metadata.data_type.to_json(), facts.data_type.to_json())
    if metadata.fill_value is not None and not same_bits(metadata.fill_value, facts.fill_value):
        expected = fill_json(metadata.fill_value, facts.data_type)
        raise _mismatch("metadata.fill_value", expected, facts.fill_json)
    if metadata.shape is not None:
        _equal("metadata.shape", list(metadata.shape), list(facts.shape))
    if metadata.chunk_shape is not None:
        member = "metadata.chunk_grid.configuration.chunk_shape"
        _equal(member, list(metadata.chunk_shape), list(facts.chunk_shape))
    if metadata.chunk_key_encoding is not None:
        encoding = facts.chunk_key_encoding
        _equal("metadata.chunk_key_encoding", metadata.chunk_key_encoding.to_json(), encoding.to_json())
    if metadata.codecs is not None:
        facts.codecs.merged(metadata.codecs, "metadata.codecs", strict=True)
    if metadata.dimension_names is not None:
        _equal("metadata.dimension_names", list(metadata.dimension_names), list(facts.dimension_names))
    _contained("metadata.attributes", metadata.attributes, facts.attributes)
    for wanted, found in zip(metadata.dimension_units or (), facts.units, strict=False):
        if wanted is not None and wanted != found:
            expected = render_units(metadata.dimension_units or ())
            raise _mismatch(f"metadata.attributes.{UNITS}", expected, render_units(facts.units))
    _contained("metadata", metadata.extra, facts.extra)


def check_schema(facts: ArrayFacts, schema: Schema) -> None:
    """Check the constraints on the schema.

    Raises:
        SpecConflictError: one is not satisfied.
        InvalidSpecError: `codec` is of another driver, or there is a hard shape for `codec_chunk`.
    """
    if schema.rank is not None:
        _equal("schema.rank", schema.rank, facts.rank)
    if schema.domain is not None:
        schema.domain.merged(facts.domain, "schema.domain")
    if schema.dtype is not None:
        _equal("schema.dtype", schema.dtype, facts.data_type.name)
    if schema.chunk_layout is not None:
        check_layout(schema.chunk_layout, facts.chunk_layout)
    if schema.has_fill_value:
        fill = schema.fill_of(facts.data_type)
        if not same_bits(fill, facts.fill_value):
            raise _mismatch("schema.fill_value", fill_json(fill, facts.data_type), facts.fill_json)
    if schema.codec is not None:
        if schema.codec.driver != facts.codec.driver:
            reason = f"the codecs of {schema.codec.driver!r} are not those of {facts.codec.driver!r}"
            raise invalid("schema.codec.driver", reason)
        if schema.codec.codecs is not None:
            facts.codecs.merged(schema.codec.codecs, "schema.codec.codecs", strict=False)
    merge_units(facts.units, schema.dimension_units, "schema.dimension_units")


def check_layout(wanted: ChunkLayout, layout: ChunkLayout) -> None:
    """Check the hard constraints on chunks.

    Raises:
        SpecConflictError: one is not satisfied.
        InvalidSpecError: there is a hard shape for `codec_chunk`, which no codec has.
    """
    if any(each is not None and each.hard for each in wanted.codec.shape or ()):
        raise invalid("schema.chunk_layout.codec_chunk.shape", "no codec of the driver has chunks of its own")
    try:
        wanted.merged(layout, "schema.chunk_layout")
    except SpecConflictError as error:
        raise _mismatch(error.member or "schema.chunk_layout", error.expected, error.found) from None


def _equal(member: str, expected: JSON, found: JSON) -> None:
    if not same_json(expected, found):
        raise _mismatch(member, expected, found)


def _contained(member: str, wanted: Mapping[str, JSON], found: Mapping[str, JSON]) -> None:
    for name, value in wanted.items():
        if name not in found or not same_json(value, found[name]):
            raise _mismatch(f"{member}.{name}", value, found.get(name))


def _mismatch(member: str, expected: JSON, found: JSON) -> SpecConflictError:
    return SpecConflictError(f"{expected!r} is expected, not {found!r}", member=member, expected=expected, found=found)
