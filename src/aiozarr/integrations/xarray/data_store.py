"""One opened group as xarray's data store: variables, attributes and encoding before CF decoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xarray import Variable
from xarray.backends.common import AbstractDataStore
from xarray.backends.zarr import FillValueCoder
from xarray.core import indexing

from aiozarr import hierarchy
from aiozarr.integrations.xarray.encoding import chunk_encoding, codec_encoding
from aiozarr.integrations.xarray.group_contents import GroupContents, dims_of
from aiozarr.integrations.xarray.lazy_array import LazyArray
from aiozarr.metadata.records import ATTRIBUTE
from aiozarr.sync.wait import wait


class GroupDataStore(AbstractDataStore):
    """The variables of one group. Making them does no I/O.

    Args:
        contents: the group.
        use_fill_value_as_mask: the fill value of the arrays masks missing values, as `_FillValue` does. None: in
            formats 1 and 2 only.
        masks: xarray masks values, as its keyword `mask_and_scale`; a mapping tells it of each variable.
        is_root: closing the data store closes the store of the group.
    """

    __slots__ = ("_contents", "_is_root", "_masks", "_masks_fill_value")

    def __init__(
        self, contents: GroupContents, use_fill_value_as_mask: bool | None, *, masks: Any = True, is_root: bool
    ) -> None:
        self._contents = contents
        self._is_root = is_root
        self._masks = masks
        self._masks_fill_value = (
            contents.group.zarr_format != 3 if use_fill_value_as_mask is None else use_fill_value_as_mask
        )

    def get_variables(self) -> dict[str, Variable]:
        """Return a lazy variable for each array."""
        return {name: self._variable(name, array) for name, array in self._contents.arrays.items()}

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the group without those of NCZarr."""
        return _shown_attributes(self._contents.group.metadata.attributes)

    def get_dimensions(self) -> dict[str, int]:
        """Return the lengths of all dimensions."""
        arrays = self._contents.arrays.values()
        return {name: length for array in arrays for name, length in zip(dims_of(array), array.shape, strict=False)}

    def close(self) -> None:
        """Close the store if opening made it."""
        if self._is_root:
            group = self._contents.group
            wait(lambda _: group.aclose())

    def _variable(self, name: str, array: hierarchy.Array) -> Variable:
        contents, metadata = self._contents, array.metadata
        dims = dims_of(array)
        if len(dims) != array.ndim:
            raise KeyError(
                f"{array.url} has no names of dimensions, which xarray needs; `dimension_names` in format 3, or the "
                f"attribute {ATTRIBUTE!r} in format 2; drop_variables={name!r} opens the group without it"
            )
        attributes = dict(metadata.attributes)
        if metadata.zarr_format != 3:
            attributes = _shown_attributes(attributes)
        lazy = LazyArray(array, contents.values.get(name), contents.corners.get(name))
        encoding = chunk_encoding(array, dims) | codec_encoding(array)
        if lazy.dtype.kind == "T":
            encoding["dtype"] = lazy.dtype
        if self._shows_fill_value(name, metadata.zarr_format):
            if metadata.has_fill_value:
                attributes["_FillValue"] = array.fill_value
        else:
            if metadata.zarr_format == 3:
                encoding["fill_value"] = array.fill_value
            if "_FillValue" in attributes:
                attributes["_FillValue"] = FillValueCoder.decode(attributes["_FillValue"], array.dtype)
        return Variable(dims, indexing.LazilyIndexedArray(lazy), attributes, encoding)

    def _shows_fill_value(self, name: str, zarr_format: int) -> bool:
        """Return whether the fill value is the attribute `_FillValue`.

        In formats 1 and 2 it is one where nothing is masked, too: there `Dataset.to_zarr` stores the attribute as the
        fill value.
        """
        is_masked = self._masks.get(name, True) if isinstance(self._masks, Mapping) else self._masks
        return self._masks_fill_value or (zarr_format != 3 and is_masked is False)


def _shown_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes without those that describe the format: names of dimensions, and NCZarr's."""
    return {
        name: value for name, value in attributes.items() if name != ATTRIBUTE and not name.lower().startswith("_nc")
    }
