"""Data types: elements of an array in documents and in memory (v3 core specification, "Data types")."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.plugins import ClassRegistry, check_class, load_class, unknown_extension

JSON: TypeAlias = Any
FillValue: TypeAlias = NDArray[Any]
DataTypeClass = TypeVar("DataTypeClass", bound="type[DataType]")

MAX_ITEM_SIZE = 1 << 20
"""Maximum size of one element in bytes. The fill value is one element: a document must not allocate gigabytes."""

_RAW = re.compile(r"r(0|[1-9][0-9]*)", re.ASCII)

_NOTHING: Mapping[str, JSON] = MappingProxyType({})

SMALL_FLOATS = (
    "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
    "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
_SMALL_COMPLEXES = " ".join(f"complex_{name}" for name in SMALL_FLOATS.split())
_MODULES = {
    "byte_strings": "null_terminated_bytes bytes variable_length_bytes r* raw_bytes",
    "number_types": (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 int2 int4 uint2 uint4 "
        "float16 float32 float64 bfloat16 " + SMALL_FLOATS + " complex64 complex128 complex_float16 "
        "complex_bfloat16 complex_float32 complex_float64 " + _SMALL_COMPLEXES
    ),
    "struct": "struct structured",
    "text": "fixed_length_utf32 string",
    "times": "numpy.datetime64 numpy.timedelta64",
}
"""The names of the data types in each module of aiozarr, which is imported when a document has one of them."""

_NAME_OF_KIND = {"b": "bool", "i": "int8", "u": "uint8", "f": "float32", "c": "complex64"}
"""By numpy's kind, a data type of the module that has most types of it. No two modules have types for one dtype."""


class DataType(ABC):
    """A data type (v3 core specification, "Data types", and the registry of extensions).

    Data types are immutable, compare and hash by value, and can be pickled. Third parties subclass this class, most
    simply as a frozen dataclass, and register the subclass with `register_data_type` or by an entry point.

    Attributes:
        names: the names in documents that this class parses.
        name: the name of this data type in documents.
    """

    names: ClassVar[tuple[str, ...]] = ()
    name: str

    @classmethod
    @abstractmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> DataType:
        """Return the type with this name and configuration.

        Args:
            name: one of `names`.
            configuration: the `configuration` member.
            member: path of the data type in the document, for errors.
            strict: reject forms that violate the specification.

        Raises:
            InvalidMetadataError: the configuration is invalid. `member` of the error is this path or one below.
            UnsupportedMetadataError: the configuration is valid, but aiozarr does not support it.
        """

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        """Return the type of this class for elements of `dtype` of any byte order, or None if the class has none."""
        return None

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of elements in memory, in native byte order. Codecs define the stored byte order."""

    @property
    def configuration(self) -> Mapping[str, JSON]:
        """The `configuration` member; empty if the type has no parameters."""
        return {}

    @property
    def is_variable(self) -> bool:
        """True if elements have no fixed size in bytes, so that array elements are pointers."""
        return self.dtype.hasobject or self.dtype.kind == "T"

    @property
    def default_fill_value(self) -> FillValue:
        """The default fill value as a read-only 0-d array: zero, false, an empty string, zero bytes."""
        return frozen(np.zeros((), self.dtype))

    @abstractmethod
    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        """Return the read-only 0-d array that the `fill_value` member of a v3 document describes.

        Raises:
            InvalidMetadataError: `value` is not a fill value of this type.
        """

    @abstractmethod
    def render_fill_value(self, array: FillValue) -> JSON:
        """Return the `fill_value` member for the 0-d `array` of `self.dtype`, which parses to the same bits."""

    @abstractmethod
    def make_fill_value(self, value: object) -> FillValue:
        """Return the read-only 0-d array of a fill value from a caller; None gives the default.

        Raises:
            TypeError: `value` has the wrong type.
            ValueError: the type has no such value.
        """

    def fill_key(self, array: FillValue) -> bytes:
        """Return a key that is equal for fill values of equal bits."""
        return array.tobytes()

    def to_json(self) -> JSON:
        """Return the `data_type` member: the name, or an object if there is a configuration."""
        configuration = self.configuration
        return {"name": self.name, "configuration": dict(configuration)} if configuration else self.name

    @staticmethod
    def from_json(value: object, *, member: str = "data_type", strict: bool = False) -> DataType:
        """Return the type of a `data_type` member: a string, or an object with a name and a configuration.

        Raises:
            InvalidMetadataError: the name is missing, or the configuration is invalid.
            UnsupportedMetadataError: the type is unknown, or its elements are too large.
        """
        name, configuration = (value, _NOTHING) if isinstance(value, str) else _parse_object(value, member)
        return get_data_type(name, member=member).from_configuration(name, configuration, member=member, strict=strict)

    @staticmethod
    def from_numpy(dtype: DTypeLike) -> DataType:
        """Return the type for elements of `dtype` of any byte order.

        `str` and `bytes` are types of variable length, unlike in numpy.

        Raises:
            TypeError: `dtype` is not a numpy type.
            UnsupportedMetadataError: no registered type supports `dtype`.
        """
        if dtype is None:
            raise TypeError("expected a data type, not None, which numpy reads as float64")
        wanted = np.dtype(dtype)
        likely = _NAME_OF_KIND.get(wanted.kind)
        for names in ((likely,) if likely else (), _registry.built_in):
            for name in names:
                _registry.find(name)
            # Types of other packages first, the last registered one before the others.
            kinds = list(dict.fromkeys(reversed(_registry.classes.values())))
            own = {*_registry.built_in.values()}
            for each in sorted(kinds, key=lambda kind: kind.__module__ in own):
                found = each.from_dtype(wanted)
                if found is not None:
                    return found
        hint = "; say what the objects are: str, bytes" if wanted.kind == "O" else ""
        raise UnsupportedMetadataError(
            f"no Zarr data type can store {clip(str(wanted))}{hint}",
            member="data_type",
            point="data_type",
            name=clip(str(wanted)),
        )


@dataclass(frozen=True)
class UnconfiguredType(DataType):
    """Base of data types without a configuration: their name alone describes them."""

    name: str

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        check_no_configuration(name, configuration, member)
        return cls(name)


_registry: ClassRegistry[DataType] = ClassRegistry("data_type", DataType, package="aiozarr.metadata", modules=_MODULES)


def register_data_type(data_type_class: DataTypeClass) -> DataTypeClass:
    """Register a data type under its `names` in this process. Also a class decorator.

    A later registration of a name replaces the earlier one, for arrays that are opened after it.

    Raises:
        TypeError: `data_type_class` is not a concrete subclass of `DataType` with names.
    """
    check_class(data_type_class, DataType, named=False)
    names = data_type_class.names
    if not names or not all(names):
        raise TypeError(f"{data_type_class.__name__} needs a class attribute `names`, a tuple of non-empty str")
    for name in names:
        _registry.add(name, data_type_class)
    return data_type_class


def get_data_type(name: str, *, member: str = "data_type") -> type[DataType]:
    """Return the registered class of a name, or the class from an entry point of an installed package.

    Raises:
        UnsupportedMetadataError: an unknown name, or a package that cannot be imported.
    """
    found = find_data_type(name)
    if found is None:
        raise unknown_extension("data_type", name, {*_registry.classes, *_registry.built_in}, member=member)
    return found


def find_data_type(name: str) -> type[DataType] | None:
    """Return the class of a name as `get_data_type`, or None for an unknown name.

    Raises:
        UnsupportedMetadataError: the package with the entry point cannot be imported.
    """
    # All of r8, r16, ... belong to the class of `r*`.
    found = _registry.find("r*" if _RAW.fullmatch(name) else name)
    return load_class("data_type", name, DataType) if found is None or name == "r*" else found


def frozen(array: FillValue) -> FillValue:
    """Make `array` read-only and return it."""
    array.setflags(write=False)
    return array


def frozen_element(value: object, dtype: np.dtype[Any]) -> FillValue:
    """Return the read-only 0-d array of an element of any size: text, bytes or an object, which may be a list."""
    array: FillValue = np.empty((), dtype)
    array[()] = value
    return frozen(array)


def check_item_size(size: int, name: str, member: str) -> None:
    """Check the size of an element.

    Raises:
        UnsupportedMetadataError: `size` is 0, or more than 1 MiB.
    """
    if not 0 < size <= MAX_ITEM_SIZE:
        raise UnsupportedMetadataError(
            f"elements must have 1 to {MAX_ITEM_SIZE} bytes, not {size}",
            member=member,
            point="data_type",
            name=clip(name),
        )


def check_no_configuration(name: str, configuration: Mapping[str, JSON], member: str) -> None:
    """Check that a type without parameters has no configuration."""
    if configuration:
        raise InvalidMetadataError(f"the data type {name!r} takes no configuration", member=f"{member}.configuration")


def _parse_object(value: object, member: str) -> tuple[str, Mapping[str, JSON]]:
    if not isinstance(value, dict):
        raise InvalidMetadataError("expected a data type: a string or an object", member=member)
    name = value.get("name")
    if not isinstance(name, str):
        raise InvalidMetadataError("the name of a data type must be a string", member=f"{member}.name")
    get_data_type(name, member=member)  # an unknown type is reported before its unknown members
    configuration = value.get("configuration", {})
    if not isinstance(configuration, dict):
        raise InvalidMetadataError("a configuration must be an object", member=f"{member}.configuration")
    for key, part in value.items():
        # A reader cannot ignore a data type, so `must_understand` is never false.
        if key not in ("name", "configuration") and (key, part) != ("must_understand", True):
            raise InvalidMetadataError(
                f"unknown member of the data type {clip(name)!r}", member=clip(f"{member}.{key}")
            )
    return name, configuration
