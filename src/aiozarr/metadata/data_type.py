"""A data type says what elements of an array are, in documents and in memory; third parties add to the family."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.document import clip
from aiozarr.plugins import load_class, unknown

JSON: TypeAlias = Any
FillValue: TypeAlias = NDArray[Any]
DataTypeClass = TypeVar("DataTypeClass", bound="type[DataType]")

MAX_ITEM_SIZE = 1 << 20
"""Bytes of one element. One element is held as the fill value: a name must not be able to ask for gigabytes."""

_RAW = re.compile(r"r(0|[1-9][0-9]*)", re.ASCII)

_NOTHING: Mapping[str, JSON] = MappingProxyType({})

_classes: dict[str, type[DataType]] = {}


class DataType(ABC):
    """One data type (v3 core specification, "Data types", and the registry of extensions).

    A data type is immutable, compares and hashes by value, and can be pickled. Third parties subclass this, most simply
    as a frozen dataclass, and register the class with `register_data_type` or by an entry point.

    Attributes:
        names: the names that the class reads in documents.
        name: the name that this type has in documents.
    """

    names: ClassVar[tuple[str, ...]] = ()
    name: str

    @classmethod
    @abstractmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> DataType:
        """Return the type of this name and configuration; `strict` refuses what only lenient readers take.

        Raises:
            InvalidMetadataError, UnsupportedMetadataError: with the place, which is `member` or lies below it.
        """

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        """Return the type of this class that stores elements of `dtype`, of any byte order; None where none does."""
        return None

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of elements in memory, in native byte order; stored order is the codecs' matter."""

    @property
    def configuration(self) -> Mapping[str, JSON]:
        """The `configuration` member; empty where the type has no parameters."""
        return {}

    @property
    def is_variable(self) -> bool:
        """True where elements have no fixed number of bytes, so that one array element only points to them."""
        return self.dtype.hasobject or self.dtype.kind == "T"

    @property
    def default_fill_value(self) -> FillValue:
        """The fill value where none was given, as a read-only 0-d array: zero, false, an empty string, zero bytes."""
        return frozen(np.zeros((), self.dtype))

    @abstractmethod
    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        """Return the read-only 0-d array that the `fill_value` member of a v3 document describes.

        Raises:
            InvalidMetadataError: `value` is no fill value of this type.
        """

    @abstractmethod
    def render_fill_value(self, array: FillValue) -> JSON:
        """Return the `fill_value` member for the 0-d `array` of `self.dtype`; it parses to the same bits."""

    @abstractmethod
    def make_fill_value(self, value: object) -> FillValue:
        """Return the read-only 0-d array of a fill value that a caller gave; None gives the default.

        Raises:
            TypeError: `value` is of another kind.
            ValueError: the type has no such value.
        """

    def fill_key(self, array: FillValue) -> bytes:
        """Return what two fill values of this type share where they are the same, bit for bit."""
        return array.tobytes()

    def to_json(self) -> JSON:
        """Return the `data_type` member: the name, or an object where there is a configuration."""
        configuration = self.configuration
        return {"name": self.name, "configuration": dict(configuration)} if configuration else self.name

    @staticmethod
    def from_json(value: object, *, member: str = "data_type", strict: bool = False) -> DataType:
        """Return the type that a `data_type` member names: a string, or an object with a name and a configuration.

        Raises:
            InvalidMetadataError: no name, or a configuration that the type does not have.
            UnsupportedMetadataError: a type that is not known here, or too large.
        """
        name, configuration = (value, _NOTHING) if isinstance(value, str) else _parse_object(value, member)
        return get_data_type(name, member=member).from_configuration(name, configuration, member=member, strict=strict)

    @staticmethod
    def from_numpy(dtype: DTypeLike) -> DataType:
        """Return the type that stores elements of `dtype`, whatever its byte order.

        `str` and `bytes`, which for numpy are strings of a length yet to be found, are types of variable length.

        Raises:
            TypeError: `dtype` is no numpy type.
            UnsupportedMetadataError: no known type stores it.
        """
        if dtype is None:
            raise TypeError("a data type is wanted; numpy would take None as float64")
        wanted = np.dtype(dtype)
        for each in reversed(list(dict.fromkeys(_classes.values()))):
            found = each.from_dtype(wanted)
            if found is not None:
                return found
        hint = "; say what the objects are: str, bytes" if wanted.kind == "O" else ""
        raise UnsupportedMetadataError(
            f"no Zarr data type stores {clip(str(wanted))}{hint}",
            member="data_type",
            point="data_type",
            name=clip(str(wanted)),
        )


def register_data_type(data_type_class: DataTypeClass) -> DataTypeClass:
    """Make `data_type_class` the type of its `names`, in this process; also a class decorator.

    A name that is taken is replaced: the last registration holds, for arrays opened after it.

    Raises:
        TypeError: it is no concrete subclass of `DataType` with names.
    """
    given: object = data_type_class
    if not isinstance(given, type) or not issubclass(given, DataType):
        raise TypeError(f"a data type is a subclass of DataType, not {given!r}")
    if inspect.isabstract(given):
        raise TypeError(f"{given.__name__} is abstract: it lacks {', '.join(sorted(given.__abstractmethods__))}")
    names = given.names
    if not names or not all(names):
        raise TypeError(f"{given.__name__} needs a class attribute `names`, a tuple of non-empty str")
    _classes.update(dict.fromkeys(names, given))
    return data_type_class


def get_data_type(name: str, *, member: str = "data_type") -> type[DataType]:
    """Return the class of a name: one registered here, or else announced by an installed package.

    Raises:
        UnsupportedMetadataError: there is no such type, or its package cannot be used.
    """
    found = find_data_type(name)
    if found is None:
        raise unknown("data_type", name, _classes, member=member)
    return found


def find_data_type(name: str) -> type[DataType] | None:
    """Return the class of a name as `get_data_type` does; None where there is none.

    Raises:
        UnsupportedMetadataError: the package that announces it cannot be used.
    """
    # The names r8, r16, ... have no end; all of them belong to the class of `r*`.
    found = _classes.get("r*" if _RAW.fullmatch(name) else name)
    return load_class("data_type", name, DataType) if found is None or name == "r*" else found


def frozen(array: FillValue) -> FillValue:
    """Return `array`, read-only from now on."""
    array.setflags(write=False)
    return array


def check_item_size(size: int, name: str, member: str) -> None:
    """Refuse elements of no bytes, and of more than 1 MiB.

    Raises:
        UnsupportedMetadataError: `size` is one of these.
    """
    if not 0 < size <= MAX_ITEM_SIZE:
        raise UnsupportedMetadataError(
            f"elements have 1 to {MAX_ITEM_SIZE} bytes, not {size}", member=member, point="data_type", name=clip(name)
        )


def check_no_configuration(name: str, configuration: Mapping[str, JSON], member: str) -> None:
    """Refuse a configuration of a type that has no parameters: what it may mean is not understood."""
    if configuration:
        raise InvalidMetadataError(f"the data type {name!r} has no parameters", member=f"{member}.configuration")


def _parse_object(value: object, member: str) -> tuple[str, Mapping[str, JSON]]:
    if not isinstance(value, dict):
        raise InvalidMetadataError("a data type is a string or an object", member=member)
    name = value.get("name")
    if not isinstance(name, str):
        raise InvalidMetadataError("a data type has a name, which is a string", member=f"{member}.name")
    get_data_type(name, member=member)  # the members of an unknown type are not known either
    configuration = value.get("configuration", {})
    if not isinstance(configuration, dict):
        raise InvalidMetadataError("a configuration is an object", member=f"{member}.configuration")
    for key, part in value.items():
        # Without its type an array cannot be read: there is no data type that a reader may ignore.
        if key not in ("name", "configuration") and (key, part) != ("must_understand", True):
            raise InvalidMetadataError(
                f"the data type {clip(name)!r} has no such member", member=clip(f"{member}.{key}")
            )
    return name, configuration
