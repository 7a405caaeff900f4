"""The formats of the drivers: how the metadata of each are parsed, made, read and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from typing_extensions import Buffer

from aiozarr.codecs.bytes import has_byte_order
from aiozarr.driver.codec_resolve import Elements, resolve_chain
from aiozarr.driver.codec_spec import BYTES_TO_BYTES, SHARDING, CodecChainSpec, check_configuration, with_index_location
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import JSON, SpecConflictError, invalid
from aiozarr.driver.metadata_constraints import ArrayFacts, MetadataConstraints, check_metadata, check_schema
from aiozarr.driver.new_array import effective_domain, new_array
from aiozarr.driver.schema import Schema
from aiozarr.driver.zarr2 import Zarr2Constraints, Zarr2Facts, check_zarr2, new_zarr2, parse_zarr2, zarr2_domain
from aiozarr.errors import InvalidMetadataError, InvalidSpecError, SpecMismatchError, located
from aiozarr.metadata.document import load_document
from aiozarr.metadata.format_rules import rules_of

REQUIRED = (
    *("zarr_format", "node_type", "shape", "data_type"),
    *("chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
)
_REQUIRED_OPTIONS = {"transpose": ("order",), SHARDING: ("chunk_shape", "codecs", "index_codecs")}


def parse_stored(data: Buffer, *, node: str) -> ArrayFacts:
    """Return the metadata of a stored array.

    Raises:
        InvalidMetadataError: the document is not a JSON object, or does not describe an array that the driver reads.
    """
    key = rules_of(3).array_key
    with located(node=node, key=key):
        document = load_document(data, max_bytes=memoryview(data).nbytes, strict=False)
    try:
        return _parse(document.members)
    except InvalidSpecError as error:
        raise InvalidMetadataError(error.message, node=node, key=key, member=error.member) from error


def _parse(document: Mapping[str, JSON]) -> ArrayFacts:
    if document.get("node_type") != "array":
        raise invalid("node_type", f"expected 'array', not {document.get('node_type')!r}")
    for name in REQUIRED:
        if name not in document:
            raise invalid(name, "the member is missing")
    found = MetadataConstraints.parse(document, "")
    members: dict[str, Any] = {each.name: getattr(found, each.name) for each in fields(ArrayFacts)}
    facts = ArrayFacts(**members)
    elements = _elements(facts)
    _check_names(document["codecs"], "codecs")
    _check_complete(facts.codecs, "codecs", elements.has_byte_order)
    resolve_chain(facts.codecs, elements, "codecs")
    names = found.dimension_names or (None,) * facts.rank
    return replace(facts, codecs=with_index_location(facts.codecs), dimension_names=names)


def _elements(facts: ArrayFacts) -> Elements:
    dtype = facts.data_type.dtype
    return Elements(facts.rank, dtype.itemsize, has_byte_order(dtype), facts.chunk_shape)


def _check_names(codecs: JSON, path: str) -> None:
    """Refuse codecs that are only names, which specs allow but documents do not."""
    for number, codec in enumerate(codecs):
        where = f"{path}[{number}]"
        if isinstance(codec, str):
            raise invalid(where, f"expected an object, not {codec!r}")
        configuration = codec.get("configuration", {})
        for name in ("codecs", "index_codecs"):
            if name in configuration:
                _check_names(configuration[name], f"{where}.configuration.{name}")


def _check_complete(chain: CodecChainSpec, path: str, byte_order: bool) -> None:
    """Refuse a chain that lacks a codec or an option."""
    serializer = chain.array_to_bytes
    if serializer is None:
        raise invalid(path, "an array-to-bytes codec is missing")
    for codec in (*chain.array_to_array, serializer, *chain.bytes_to_bytes):
        for option in _REQUIRED_OPTIONS.get(codec.name, ()):
            if option not in codec.options:
                raise invalid(path, f"the codec {codec.name!r} lacks {option!r}")
        if codec.name in BYTES_TO_BYTES:
            check_configuration(codec.name, codec.options, path)
    if serializer.name == "bytes" and byte_order and "endian" not in serializer.options:
        raise invalid(path, "the codec 'bytes' lacks 'endian'")
    if serializer.name == SHARDING:
        _check_complete(chain.inner, f"{path}.configuration.codecs", byte_order)
        _check_complete(serializer.options["index_codecs"], f"{path}.configuration.index_codecs", True)


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
        read: parses a stored document of the node at the URL `node`.
        check: raises `SpecConflictError` unless metadata satisfy the constraints.
        domain: the domain that constraints determine; None if they leave it open.
        document: the document of which the array's own metadata are made.
    """

    number: int
    adapter: str
    parse: Callable[[JSON, str], Constraints]
    new: Callable[..., Facts]
    read: Callable[..., Facts]
    check: Callable[[Any, Any, Schema], None]
    domain: Callable[[Any, Schema], IndexDomain | None]
    document: Callable[[Any], dict[str, JSON]]

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
    return replace(facts, codecs=resolve_chain(facts.codecs, _elements(facts), "metadata.codecs")).document()


FORMATS: dict[str, Format] = {
    "zarr3": Format(
        number=3,
        adapter="zarr3",
        parse=MetadataConstraints.parse,
        new=new_array,
        read=parse_stored,
        check=_check_zarr3,
        domain=effective_domain,
        document=_explicit_document,
    ),
    "zarr": Format(
        number=2,
        adapter="zarr2",
        parse=Zarr2Constraints.parse,
        new=new_zarr2,
        read=parse_zarr2,
        check=check_zarr2,
        domain=zarr2_domain,
        document=Zarr2Facts.document,
    ),
}
