"""Schemas: constraints on an array that do not depend on its format (TensorStore's `Schema`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from aiozarr.driver.chunk_layout import ChunkLayout
from aiozarr.driver.codec_spec import CodecChainSpec
from aiozarr.driver.data_types import NAMES, parse_dtype, parse_schema_fill
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import JSON, Members, SpecConflictError, as_json, text
from aiozarr.driver.json_members import rank as parse_rank
from aiozarr.driver.unit import Units, parse_units
from aiozarr.metadata.data_type import DataType

V2_CODEC_MEMBERS = ("compressor", "filters")


@dataclass(frozen=True)
class CodecSchema:
    """A `codec`: the driver whose codecs they are, and the constraints.

    Attributes:
        driver: "zarr3" or "zarr".
        codecs: the chain of zarr3; None if unconstrained.
        options: `compressor` and `filters` of zarr.
    """

    driver: str
    codecs: CodecChainSpec | None = None
    options: dict[str, JSON] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: JSON, path: str) -> CodecSchema:
        """Return the codec of its JSON."""
        with Members(value, path) as members:
            driver = members.require("driver", text)
            if driver == "zarr3":
                return cls(driver, members.take("codecs", CodecChainSpec.parse, None))
            if driver == "zarr":
                given = {name: members.take(name, as_json, _MISSING) for name in V2_CODEC_MEMBERS}
                return cls(driver, None, {name: each for name, each in given.items() if each is not _MISSING})
            members.rest()
            return cls(driver)

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON of the codec."""
        codecs = {} if self.codecs is None else {"codecs": self.codecs.to_json()}
        return {**codecs, **self.options, "driver": self.driver}


_MISSING: Any = object()


@dataclass(frozen=True)
class Schema:
    """Constraints on an array, or the schema of an open one.

    Attributes:
        dtype: name of the data type.
        rank: number of dimensions.
        domain: the index domain.
        chunk_layout: constraints on chunks.
        codec: constraints on codecs.
        fill_value: the fill value as JSON.
        has_fill_value: False if `fill_value` is unconstrained.
        dimension_units: the unit of each dimension.
    """

    dtype: str | None = None
    rank: int | None = None
    domain: IndexDomain | None = None
    chunk_layout: ChunkLayout | None = None
    codec: CodecSchema | None = None
    fill_value: JSON = None
    has_fill_value: bool = False
    dimension_units: Units | None = None

    @classmethod
    def parse(cls, value: JSON, path: str) -> Schema:
        """Return the schema of its JSON.

        Raises:
            InvalidSpecError: a member is not valid, or two members contradict each other.
        """
        with Members(value, path) as members:
            has_fill = "fill_value" in members
            schema = cls(
                dtype=members.take("dtype", parse_dtype, None),
                rank=members.take("rank", parse_rank, None),
                domain=members.take("domain", IndexDomain.parse, None),
                chunk_layout=members.take("chunk_layout", ChunkLayout.parse, None),
                codec=members.take("codec", CodecSchema.parse, None),
                fill_value=members.take("fill_value", as_json, None),
                has_fill_value=has_fill,
                dimension_units=members.take("dimension_units", parse_units, None),
            )
        if has_fill and schema.dtype in NAMES:
            parse_schema_fill(schema.fill_value, DataType.from_json(schema.dtype), f"{path}.fill_value")
        return schema.with_rank(None, path)

    def with_rank(self, rank: int | None, path: str) -> Schema:
        """Return the schema with the rank that its members, and `rank`, have.

        Raises:
            SpecConflictError: they differ.
        """
        layout, units = self.chunk_layout, self.dimension_units
        given = {
            "rank": self.rank,
            "domain": None if self.domain is None else self.domain.rank,
            "chunk_layout": None if layout is None else layout.rank,
            "dimension_units": None if units is None else len(units),
        }
        for name, each in given.items():
            if each is not None and rank is not None and each != rank:
                raise SpecConflictError(
                    f"the rank {each} of {name} is not {rank}", member=f"{path}.{name}", expected=rank, found=each
                )
            rank = each if rank is None else rank
        return replace(self, rank=rank)

    def with_dtype(self, dtype: str | None, path: str) -> Schema:
        """Return the schema with this data type.

        Raises:
            SpecConflictError: it has another one.
        """
        if dtype is not None and self.dtype not in (None, dtype):
            raise SpecConflictError(
                f"the data types {dtype} and {self.dtype} differ", member=path, expected=dtype, found=self.dtype
            )
        return replace(self, dtype=self.dtype or dtype)

    def fill_of(self, data_type: DataType, path: str = "schema.fill_value") -> Any:
        """Return the fill value as a 0-d array of this type, or None if it is unconstrained."""
        return parse_schema_fill(self.fill_value, data_type, path) if self.has_fill_value else None

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON of the schema."""
        layout, units = self.chunk_layout, self.dimension_units
        members = {
            "chunk_layout": None if layout is None or layout.rank == 0 else layout.to_json(),
            "codec": None if self.codec is None else self.codec.to_json(),
            "dimension_units": [unit and unit.to_json() for unit in units or ()] if any(units or ()) else None,
            "domain": None if self.domain is None else self.domain.to_json(),
            "dtype": self.dtype,
            "fill_value": self.fill_value,
            "rank": self.rank,
        }
        may_be_null = {"fill_value"} if self.has_fill_value else set()
        return {name: value for name, value in members.items() if value is not None or name in may_be_null}
