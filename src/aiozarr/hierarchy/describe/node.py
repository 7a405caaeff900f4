"""The metadata of a new node, of the format that is asked for: each option goes with its formats, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from aiozarr.hierarchy.describe.v2 import new_v1_array, new_v2_array
from aiozarr.hierarchy.describe.v3 import new_array_metadata, new_group_metadata
from aiozarr.hierarchy.documents import NodeMetadata, check_format
from aiozarr.metadata import ArrayMetadata, GroupMetadata, rules_of

# What an option is where nobody gave it.
DEFAULTS: dict[str, Any] = {
    "chunks": "auto",
    "shards": None,
    "codecs": "auto",
    "fill_value": None,
    "order": "C",
    "dimension_names": None,
    "attributes": None,
    "chunk_key_encoding": None,
    "storage_transformers": (),
    "filters": "auto",
    "compressor": "auto",
    "dimension_separator": None,
    "compression": "auto",
    "compression_opts": None,
}
_MAKERS: dict[int, Any] = {3: new_array_metadata, 2: new_v2_array, 1: new_v1_array}


def describe_array(zarr_format: int, options: Mapping[str, Any]) -> ArrayMetadata:
    """Return the metadata of a new array; `options` are the keywords of `create_array`.

    Raises:
        TypeError: an option that this format does not have, or a missing or unknown one.
        ValueError, InvalidMetadataError, UnsupportedMetadataError: as `create_array`.
    """
    check_format(zarr_format)
    maker = _MAKERS[zarr_format]
    wanted = [name for name in signature(maker).parameters if name != "zarr_format"]
    unknown = [name for name in options if name not in DEFAULTS and name not in ("shape", "dtype")]
    if unknown:
        raise TypeError(f"create_array has no option {unknown[0]!r}")
    for name in ("shape", "dtype"):
        if name not in options:
            raise TypeError(f"an array needs a {name}")
    for name, value in options.items():
        if name not in wanted and not _is_default(name, value):
            formats = [str(number) for number, each in _MAKERS.items() if name in signature(each).parameters]
            raise TypeError(f"{name} goes with Zarr format {' or '.join(formats)}, not with format {zarr_format}")
    given = DEFAULTS | dict(options)
    metadata: ArrayMetadata = maker(**{name: given[name] for name in wanted})
    return metadata


def describe_group(zarr_format: int, attributes: Mapping[str, Any] | None) -> GroupMetadata:
    """Return the metadata of a new group.

    Raises:
        ValueError: format 1, which has no groups, or one that is none.
        TypeError: `attributes` are no JSON values.
    """
    check_format(zarr_format)
    if not rules_of(zarr_format).has_groups:
        raise ValueError(f"Zarr format {zarr_format} has no groups; its arrays lie side by side")
    return new_group_metadata(attributes, zarr_format)


def describe_node(description: object, zarr_format: int) -> NodeMetadata:
    """Return the metadata of one entry of `create_hierarchy`: metadata, or the keywords of an array or a group.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(description, ArrayMetadata | GroupMetadata):
        if description.zarr_format != zarr_format:
            raise ValueError(f"metadata of Zarr format {description.zarr_format} in a group of format {zarr_format}")
        return description
    if not isinstance(description, Mapping):
        raise TypeError(
            f"a node is described by its metadata or a mapping of keywords, not by {type(description).__name__}"
        )
    if "shape" in description or "dtype" in description:
        return describe_array(zarr_format, description)
    unknown = set(description) - {"attributes"}
    if unknown:
        raise TypeError(f"a group has no option {min(map(str, unknown))!r}, and an array needs a shape and a dtype")
    return describe_group(zarr_format, description.get("attributes"))


def _is_default(name: str, value: Any) -> bool:
    default = DEFAULTS[name]
    return value is default or (isinstance(value, str) and value == default)
