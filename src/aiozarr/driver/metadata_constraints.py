"""The `metadata` of a zarr3 spec: a `zarr.json` of which every member may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiozarr.driver.codec_spec import CodecChainSpec
from aiozarr.driver.data_types import FillValue, parse_data_type, parse_metadata_fill
from aiozarr.driver.json_members import JSON, Members, array, as_json, invalid, lengths, one_of, ranked, text
from aiozarr.driver.unit import Units, parse_stored_units
from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.document import check_json

SEPARATORS = {"default": "/", "v2": "."}
UNITS = "dimension_units"


@dataclass(frozen=True)
class KeyEncoding:
    """A chunk key encoding with its separator."""

    name: str
    separator: str

    @classmethod
    def parse(cls, value: JSON, path: str) -> KeyEncoding:
        """Return the encoding of its JSON; the separator is that of the encoding, if it is missing."""
        with Members(value, path) as members:
            name: str = members.require("name", one_of(*SEPARATORS))

            def separator(configuration: JSON, where: str) -> str:
                with Members(configuration, where) as each:
                    found: str = each.take("separator", one_of(".", "/"), SEPARATORS[name])
                    return found

            return cls(name, members.take("configuration", separator, SEPARATORS[name]))

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON, without a separator that is the encoding's own."""
        if self.separator == SEPARATORS[self.name]:
            return {"name": self.name}
        return {"configuration": {"separator": self.separator}, "name": self.name}


@dataclass(frozen=True)
class MetadataConstraints:
    """Constraints on the members of a `zarr.json`; None is unconstrained.

    Attributes:
        rank: number of dimensions.
        shape: lengths of the dimensions.
        data_type: the type of the elements.
        chunk_shape: lengths of the stored chunks.
        chunk_key_encoding: the encoding of chunk keys.
        fill_value: the fill value, as 0-d array of the type.
        codecs: the chain, possibly partial.
        dimension_names: the stored names, which a name or null must equal.
        dimension_units: the stored units, which null does not constrain.
        attributes: the other attributes, which the stored ones contain.
        extra: unknown members that may be ignored, which the stored ones contain.
    """

    rank: int | None = None
    shape: tuple[int, ...] | None = None
    data_type: DataType | None = None
    chunk_shape: tuple[int, ...] | None = None
    chunk_key_encoding: KeyEncoding | None = None
    fill_value: FillValue | None = None
    codecs: CodecChainSpec | None = None
    dimension_names: tuple[str | None, ...] | None = None
    dimension_units: Units | None = None
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: JSON, path: str) -> MetadataConstraints:
        """Return the constraints of their JSON.

        Raises:
            InvalidSpecError: a member is not valid.
        """
        members = Members(value, path)
        members.take("zarr_format", one_of(3), 3)
        members.take("node_type", one_of("array"), "array")
        data_type = members.take("data_type", parse_data_type, None)
        fill: Any = None
        if "fill_value" in members:
            if data_type is None:
                raise invalid(members.at("fill_value"), "a fill value needs data_type beside it")
            fill = members.require("fill_value", lambda each, where: parse_metadata_fill(each, data_type, where))
        shape = members.take("shape", lengths, None)
        names = members.take(
            "dimension_names",
            lambda each, where: ranked(each, where, lambda name, at: None if name is None else text(name, at)),
            None,
        )
        encoding = members.take("chunk_key_encoding", KeyEncoding.parse, None)
        chunk_shape = members.take("chunk_grid", _chunk_shape, None)
        codecs = members.take("codecs", CodecChainSpec.parse, None)
        members.take("storage_transformers", _no_transformers, None)
        nothing: tuple[Mapping[str, JSON], Units | None] = ({}, None)
        attributes, units = members.take("attributes", _attributes, nothing)
        rank: int | None = None
        given = {"shape": shape, "dimension_names": names, "chunk_grid": chunk_shape, f"attributes.{UNITS}": units}
        for name, each in given.items():
            if each is not None and rank is not None and len(each) != rank:
                raise invalid(members.at(name), f"{len(each)} items for {rank} dimensions")
            rank = len(each) if each is not None else rank
        extra = members.rest()
        for name, each in extra.items():
            if not isinstance(each, Mapping) or each.get("must_understand") is not False:
                reason = f'unknown member {name!r}; an extension says {{"must_understand": false}}'
                raise invalid(members.at(str(name)), reason)
        return cls(rank, shape, data_type, chunk_shape, encoding, fill, codecs, names, units, dict(attributes), extra)


def _chunk_shape(value: JSON, path: str) -> tuple[int, ...]:
    def configuration(given: JSON, where: str) -> tuple[int, ...]:
        with Members(given, where) as each:
            return each.require("chunk_shape", lambda shape, at: lengths(shape, at, 1))

    with Members(value, path) as members:
        members.require("name", one_of("regular"))
        return members.require("configuration", configuration)


def _no_transformers(value: JSON, path: str) -> None:
    if array(value, path):
        raise invalid(path, "the driver has no storage transformers")


def _attributes(value: JSON, path: str) -> tuple[Mapping[str, JSON], Units | None]:
    members = Members(value, path)
    units = members.take(UNITS, parse_stored_units, None)
    attributes = {name: as_json(each, path) for name, each in members.rest().items()}
    try:
        check_json(attributes, path, finite=False)
    except InvalidMetadataError as error:
        raise invalid(error.member or path, error.message) from None
    return attributes, units
