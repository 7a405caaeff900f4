"""Schemas: constraints on an array that do not depend on its format (TensorStore's `Schema`).

Also the types of their members: units of dimensions, which are a multiplier and a base unit, such as 4 nm
(TensorStore's `Unit`), data types, and fill values as specs write them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.formatting import shown
from aiozarr.driver.chunk_layout import ChunkLayout
from aiozarr.driver.codec_spec import CodecChainSpec
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import (
    JSON,
    Members,
    SpecConflictError,
    array,
    as_json,
    boolean,
    integer,
    invalid,
    number,
    ranked,
    text,
)
from aiozarr.driver.json_members import rank as parse_rank
from aiozarr.errors import MetadataError
from aiozarr.metadata.data_type import DataType

_MULTIPLIER = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Unit:
    """A unit, such as 4 nm.

    Attributes:
        multiplier: how many base units.
        base: the base unit; "" for numbers without one. It is compared as text and never converted.
    """

    multiplier: float
    base: str

    @classmethod
    def parse(cls, value: JSON, path: str) -> Unit:
        """Return the unit of `"4 nm"`, `4` or `[4, "nm"]`.

        Raises:
            InvalidSpecError: `value` has another form.
        """
        if isinstance(value, str):
            return cls.parse_text(value, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls(number(value, path), "")
        pair = array(value, path)
        if len(pair) != 2:
            raise invalid(path, f"expected a multiplier and a base unit, not {shown(value)}")
        multiplier = number(pair[0], f"{path}[0]")
        if multiplier <= 0:
            raise invalid(f"{path}[0]", f"a multiplier must be greater than 0, not {shown(multiplier)}")
        return cls(multiplier, text(pair[1], f"{path}[1]").strip())

    @classmethod
    def parse_text(cls, value: JSON, path: str) -> Unit:
        """Return the unit of `"4 nm"`, the form in metadata documents."""
        found = _MULTIPLIER.fullmatch(text(value, path))
        assert found is not None
        return cls(float(found[1] or 1), found[2].strip())

    def to_json(self) -> list[JSON]:
        """Return `[4.0, "nm"]`, the form in schemas."""
        return [float(self.multiplier), self.base]

    def __str__(self) -> str:
        if self.multiplier == 1:
            return self.base or "1"
        return f"{self.multiplier:.6g} {self.base}".rstrip()


Units = tuple[Unit | None, ...]


def parse_units(value: JSON, path: str) -> Units:
    """Parse one unit or None per dimension from the `dimension_units` of a schema."""
    return ranked(value, path, lambda each, where: None if each is None else Unit.parse(each, where))


def parse_stored_units(value: JSON, path: str) -> Units:
    """Parse one unit or None per dimension from the `dimension_units` in attributes, which are strings."""
    return ranked(value, path, lambda each, where: None if each is None else Unit.parse_text(each, where))


def render_units(units: Sequence[Unit | None]) -> list[str | None]:
    """Return the form in attributes."""
    return [None if unit is None else str(unit) for unit in units]


def merge_units(a: Units | None, b: Units | None) -> Units | None:
    """Return the units that satisfy both a document and a schema; None is compatible with every unit.

    Raises:
        SpecConflictError: two units of one dimension differ.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        raise SpecConflictError(
            f"the units {render_units(a)} and {render_units(b)} differ",
            member="schema.dimension_units",
            expected=render_units(b),
            found=render_units(a),
        )
    return tuple([y if x is None else x for x, y in zip(a, b, strict=True)])


FillValue = NDArray[Any]
NAMES = (
    *("bool", "int2", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float4_e2m1fn", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""The data types that the drivers store."""
OTHER_NAMES = ("byte", "char", "string", "ustring", "json")
"""TensorStore's data types that a schema may name, but that the drivers do not store."""


def parse_data_type(value: JSON, path: str) -> DataType:
    """Return the data type that a spec's metadata name.

    Raises:
        InvalidSpecError: there is no such type.
    """
    return DataType.from_json(_type_name(value, path, NAMES))


def parse_dtype(value: JSON, path: str) -> str:
    """Return the name of a schema's data type.

    Raises:
        InvalidSpecError: there is no such type.
    """
    return _type_name(value, path, (*NAMES, *OTHER_NAMES))


def _type_name(value: JSON, path: str, names: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise invalid(path, f"unknown data type {shown(value)}; expected one of {', '.join(NAMES)}")
    return value


def declared_type(name: str | None, member: str) -> DataType:
    """Return the data type that a schema names for a new array; `member` of a document could name it, too.

    Raises:
        InvalidSpecError: no type is named, or the drivers do not store it.
    """
    if name is None:
        raise invalid("dtype", f"the data type is unknown; set {member}, dtype or schema.dtype")
    if name not in NAMES:
        raise invalid("dtype", f"the driver does not support {name!r}; expected one of {', '.join(NAMES)}")
    return DataType.from_json(name)


def parse_metadata_fill(value: JSON, data_type: DataType, path: str) -> FillValue:
    """Return the fill value of metadata, written as in documents: `"NaN"`, `"0x7fc00001"`, `[1, "NaN"]`.

    Raises:
        InvalidSpecError: the type has no such value.
    """
    if data_type.dtype.kind in "iu" and isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return data_type.parse_fill_value(value, strict=data_type.dtype.kind in "biufc")
    except MetadataError as error:
        raise invalid(path, f"{shown(value)} is not a value of {data_type.name}") from error


def parse_schema_fill(value: JSON, data_type: DataType, path: str) -> FillValue:
    """Return the fill value of a schema: a number or boolean, or nested arrays with a single one.

    Raises:
        InvalidSpecError: it has several elements, or the type has no such value.
    """
    while isinstance(value, list | tuple):
        if len(value) != 1:
            raise invalid(path, f"the fill value must be a scalar, not {shown(value)}")
        value = value[0]
    kind = data_type.dtype.kind
    if isinstance(value, str):
        value = _of_text(value, kind)
    if kind == "b":
        return parse_metadata_fill(boolean(value, path), data_type, path)
    if kind == "c":
        raise invalid(path, "a schema cannot have a complex fill value; use metadata.fill_value")
    if kind in "iu":
        limits = np.iinfo(data_type.dtype)
        return parse_metadata_fill(integer(value, path, int(limits.min), int(limits.max)), data_type, path)
    return parse_metadata_fill(value, data_type, path)


def _of_text(value: str, kind: str) -> JSON:
    """Return the number or boolean that a string of a schema stands for; other strings unchanged."""
    if kind == "b":
        return {"true": True, "false": False}.get(value, value)
    try:
        if kind in "iu":
            return int(value)
        found = float.fromhex(value) if value.startswith("0x") else float(value)
    except ValueError:
        return value
    return found if math.isfinite(found) else value


def same_bits(a: FillValue, b: FillValue) -> bool:
    """Return whether two fill values of one type are identical: equal NaN are, 0.0 and -0.0 are not."""
    return a.tobytes() == b.tobytes()


def fill_json(value: FillValue, data_type: DataType) -> JSON:
    """Return the fill value as in documents."""
    return data_type.render_fill_value(value)


V2_CODEC_MEMBERS = ("compressor", "filters")


@dataclass(frozen=True)
class CodecSchema:
    """The `codec` of a schema: a driver, and constraints on its codecs.

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
        """Parse a codec from JSON."""
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
        """Parse a schema from JSON.

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
        """Return the schema with the common rank of its members and `rank`.

        Raises:
            SpecConflictError: the ranks differ.
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
                    f"the rank {each} of {name} differs from {rank}", member=f"{path}.{name}", expected=rank, found=each
                )
            rank = each if rank is None else rank
        return replace(self, rank=rank)

    def with_dtype(self, dtype: str | None, path: str) -> Schema:
        """Return the schema with this data type.

        Raises:
            SpecConflictError: the schema has another data type.
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
