"""Reads members that other writers spell differently from the specification, if they have one plain meaning.

A member is respelled only after the strict reading has refused it, so that documents that follow the specification cost
nothing. The specification's spelling is what later changes write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

from aiozarr.errors import InvalidMetadataError, MetadataError
from aiozarr.metadata.document import Document, integral, respelled_number
from aiozarr.metadata.format_rules import CONSOLIDATED_MEMBER
from aiozarr.metadata.records import ArrayMetadata, NamedConfig

T = TypeVar("T")

MAX_RESPELLED = 64
"""Members of one document that are respelled: a hostile document must not be parsed many times."""

_ABSENT: Any = object()
_STEP = re.compile(r"([^.\[\]]{1,100})|\[([0-9]{1,9})\]")
_INDEX = re.compile(r"(?:\[[0-9]{1,9}\])+\Z")
# In formats 1 and 2, the members of a filter or compressor have no `configuration` around them.
_FLAT = re.compile(r"\.(filters\[[0-9]{1,9}\]|compressor)\.configuration")
_PER_DIMENSION = ("shape", "chunks", "chunk_shape", "dimension_names")
# Each type parses its own fill values, and copies of other nodes are not this document's members.
_OTHERS = ("fill_value", CONSOLIDATED_MEMBER)
# The compressed bytes contain the parameters of decoding, so these options matter to writers only.
_COMPRESSORS = ("blosc", "zstd", "gzip", "zlib", "bz2", "lzma", "lz4")
_OPTIONS = (
    *("level", "clevel", "cname", "shuffle", "blocksize", "typesize"),
    *("acceleration", "checksum", "preset", "check"),
)


def read_leniently(parse: Callable[[Document], T], document: Document) -> T:
    """Return `parse(document)`. Members that it refuses are respelled, and it is called again.

    Raises:
        InvalidMetadataError: `parse` refuses a member in any spelling.
    """
    refused: list[MetadataError] = []
    while True:
        try:
            return parse(document)
        except InvalidMetadataError as error:
            path, members = error.member or "", None
            # The duplicates of a document belong to its own objects, and not to copies.
            if not (document.duplicates or len(refused) == MAX_RESPELLED or path.startswith(_OTHERS)):
                members = _changed(document.members, path, partial(_respelled, name=_name(path)))
            if members is None:
                raise first_error(refused, error) from None
            refused.append(error)
            document = document._replace(members=members)


def first_error(refused: Sequence[MetadataError], error: MetadataError) -> MetadataError:
    """Return the error of the stored spelling, if `error` is about a member that was respelled."""
    return next((first for first in refused if (error.member or "").startswith(first.member or "\0")), error)


def respelled_array(
    metadata: ArrayMetadata, error: MetadataError, defaults: Callable[[str], Mapping[str, Any]]
) -> ArrayMetadata | None:
    """Return `metadata` with another spelling of the member of its grid or codecs that `error` names, or None.

    Args:
        metadata: the metadata.
        error: the error of the grid or of a codec.
        defaults: returns the default configuration of the codec of a name.
    """
    path = _FLAT.sub(r".\1", error.member or "")
    points: dict[str, Any] = {name: asdict(getattr(metadata, name)) for name in ("chunk_grid", "chunk_key_encoding")}
    points["codecs"] = [asdict(codec) for codec in metadata.codecs]
    if not isinstance(error, InvalidMetadataError) or not path.startswith(tuple(points)):
        return None
    if path.startswith("chunk_grid.configuration.chunk_shape"):
        changed = _changed(points, "chunk_grid", partial(_respelled_grid, metadata=metadata))
    else:
        changed = _changed(points, path, partial(_respelled, name=_name(path), ndim=metadata.ndim))
        changed = changed or _without_option(points, path, {"typesize": metadata.dtype.itemsize}, defaults)
    if changed is None:
        return None
    grid, encoding = NamedConfig(**changed["chunk_grid"]), NamedConfig(**changed["chunk_key_encoding"])
    codecs = tuple([NamedConfig(**codec) for codec in changed["codecs"]])
    return replace(metadata, chunk_grid=grid, chunk_key_encoding=encoding, codecs=codecs)


def _respelled(value: Any, name: str, ndim: int = 0) -> Any:
    """Return `value` as the specification spells it, or an equal value if it has no other plain meaning."""
    if value is None or value == {}:
        return _ABSENT
    if isinstance(value, list):
        return [each if each is None or isinstance(each, dict) else _respelled(each, "") for each in value]
    if name == "order" and value in ("C", "F"):
        # The first text of the specification 3.0 had these names.
        return list(range(ndim))[:: 1 if value == "C" else -1]
    if name in _PER_DIMENSION and isinstance(value, int | float | str):
        return [value]
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    # Text in place of the version is more likely another format: no reader takes it.
    return integral(value if name == "zarr_format" else respelled_number(value))


def _respelled_grid(grid: dict[str, Any], metadata: ArrayMetadata) -> Any:
    name = "chunk_shape" if grid["name"] == "regular" else "chunk_shapes"
    lengths = _respelled(grid["configuration"].get(name), name)
    if not isinstance(lengths, list) or name == "chunk_shapes":
        return grid | {"configuration": {**grid["configuration"], name: lengths}}
    inner = next((codec.configuration for codec in metadata.codecs if codec.name == "sharding_indexed"), {})
    units = _respelled(inner.get("chunk_shape"), name)
    units = units if isinstance(units, list) and len(units) == len(lengths) else [1] * len(lengths)
    # No chunk can have been stored under a length of 0.
    lengths = [unit if length == 0 else length for length, unit in zip(lengths, units, strict=True)]
    if {isinstance(length, list) for length in lengths} == {True, False}:
        # zarr-python 3.2 stored chunks of differing lengths in this way.
        return grid | {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": lengths}}
    return grid | {"configuration": {"chunk_shape": lengths}}


def _without_option(
    points: Any, path: str, own: Mapping[str, Any], defaults: Callable[[str], Mapping[str, Any]]
) -> Any:
    """Return the extensions without an option of a compressor; if it is missing, with its default; else None."""
    codec = _value_at(points, _steps(path.rpartition(".")[0].removesuffix(".configuration")))
    name = str(codec.get("name", codec.get("id"))) if isinstance(codec, dict) else ""
    if _name(path) not in _OPTIONS or name.removeprefix("numcodecs.") not in _COMPRESSORS:
        return None
    default = {**defaults(name), **own}.get(_name(path), _ABSENT)
    return _changed(points, path, lambda value: default if value is _ABSENT else _ABSENT)


def _changed(members: Mapping[str, Any], path: str, change: Callable[[Any], Any]) -> dict[str, Any] | None:
    """Return a copy of an object with the value at `path` changed, or None if nothing changes.

    The path of an item of a list stands for the list. A missing value is `_ABSENT`, for `change` and from it.
    """
    steps = _steps(_INDEX.sub("", path))
    if not steps:
        return None
    copy = {**members, **({steps[0]: deepcopy(members[steps[0]])} if steps[0] in members else {})}
    parent, name = _value_at(copy, steps[:-1]), steps[-1]
    if not isinstance(parent, dict):
        return None
    value = parent.get(name, _ABSENT)
    new = change(value)
    if repr(new) == repr(value):
        return None
    parent[name] = new
    if new is _ABSENT:
        del parent[name]
    return copy


def _value_at(value: Any, steps: Sequence[Any]) -> Any:
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _steps(path: str) -> list[Any]:
    return [name or int(index) for name, index in _STEP.findall(path)]


def _name(path: str) -> str:
    return _INDEX.sub("", path).rpartition(".")[2]
