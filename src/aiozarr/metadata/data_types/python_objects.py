"""Python objects, which only Zarr v2 has. The object codec of the array defines their values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiozarr.errors import UnsupportedMetadataError
from aiozarr.metadata.data_type import JSON, DataType, FillValue, frozen_element
from aiozarr.metadata.document import check_json


@dataclass(frozen=True)
class ObjectType(DataType):
    """Objects that a codec such as json2 or msgpack2 encodes. The type has no name in v3 documents."""

    name: str = "object"

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> DataType:
        raise UnsupportedMetadataError("v3 stores no Python objects", member=member, point="data_type", name=name)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def default_fill_value(self) -> FillValue:
        """None."""
        return frozen_element(None, self.dtype)

    def to_json(self) -> JSON:
        raise UnsupportedMetadataError(
            "v3 stores no Python objects", member="data_type", point="data_type", name=self.name
        )

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        """Return any JSON value unchanged."""
        return frozen_element(value, self.dtype)

    def render_fill_value(self, array: FillValue) -> JSON:
        return array.item()

    def make_fill_value(self, value: object) -> FillValue:
        if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
            value = value.item()
        check_json(value, "fill_value")
        return frozen_element(value, self.dtype)

    def fill_key(self, array: FillValue) -> bytes:
        return json.dumps(array.item(), sort_keys=True).encode()
