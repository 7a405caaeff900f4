"""Reads members that other writers spell differently from the specification, if they have one plain meaning.

A member is respelled only after the strict reading has refused it, so that documents that follow the specification cost
nothing. The specification's spelling is what later changes write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from aiozarr.errors import InvalidMetadataError, MetadataError
from aiozarr.metadata.document import Document
from aiozarr.metadata.format_rules import CONSOLIDATED_MEMBER
from aiozarr.metadata.records import ArrayMetadata, NamedConfig

T = TypeVar("T")

MAX_RESPELLED = 64
"""Members of one document that are respelled: a hostile document must not be parsed many times."""

_ABSENT: Any = object()
_Change: TypeAlias = Callable[[Any], Any]
"""Returns the new value of a member, or `_ABSENT` to remove it. The argument is its value, or `_ABSENT`."""

_STEP = re.compile(r"([^.\[\]]{1,100})|\[([0-9]{1,9})\]")
_INDEX = re.compile(r"(?:\[[0-9]{1,9}\])+\Z")
# In formats 1 and 2, the members of a filter or compressor have no `configuration` around them.
_FLAT = re.compile(r"\.(filters\[[0-9]{1,9}\]|compressor)\.configuration")
_NUMBER = re.compile(
    r" {0,9}[+-]?(?:nan|inf(?:inity)?|(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:e[+-]?[0-9]{1,4})?) {0,9}",
    re.ASCII | re.IGNORECASE,
)
_PER_DIMENSION = ("shape", "chunks", "chunk_shape", "dimension_names")
# The compressed bytes contain the parameters of decoding, so these options matter to writers only.
_COMPRESSORS = ("blosc", "zstd", "gzip", "zlib", "bz2", "lzma", "lz4")
_OPTIONS = (
    *("level", "clevel", "cname", "shuffle", "blocksize", "typesize"),
    *("acceleration", "checksum", "preset", "check"),
)


def read_leniently(parse: Callable[[Document], T], document: Document, *, strict: bool) -> T:
    """Return `parse(document)`. Unless strict, members that it refuses are respelled, and it is called again.

    Raises:
        InvalidMetadataError: `parse` refuses a member in any spelling.
    """
    refused: list[MetadataError] = []
    while True:
        try:
            return parse(document)
        except InvalidMetadataError as error:
            member = error.member or ""
            duplicates = dict(document.duplicates)
            members = None
            if not strict and len(refused) < MAX_RESPELLED and not member.startswith(CONSOLIDATED_MEMBER):
                members = _changed(document.members, member, partial(_respelled, member=member), duplicates)
            if members is None:
                raise first_error(refused, error) from None
            refused.append(error)
            document = document._replace(members=members, duplicates=duplicates)


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
    member = _FLAT.sub(r".\1", error.member or "")
    points: dict[str, Any] = {name: _members(getattr(metadata, name)) for name in ("chunk_grid", "chunk_key_encoding")}
    points["codecs"] = [_members(codec) for codec in metadata.codecs]
    if not isinstance(error, InvalidMetadataError) or not member.startswith(tuple(points)):
        return None
    if member.startswith("chunk_grid.configuration.chunk_shape"):
        changed = _changed(points, "chunk_grid", partial(_respelled_grid, metadata=metadata))
    else:
        changed = _changed(points, member, partial(_respelled_option, member=member, ndim=metadata.ndim))
        changed = changed or _without_option(points, member, metadata, defaults)
    if changed is None:
        return None
    return replace(
        metadata,
        chunk_grid=NamedConfig(**changed["chunk_grid"]),
        chunk_key_encoding=NamedConfig(**changed["chunk_key_encoding"]),
        codecs=tuple([NamedConfig(**codec) for codec in changed["codecs"]]),
    )


def _members(extension: NamedConfig) -> dict[str, Any]:
    configuration = dict(extension.configuration)
    return {"name": extension.name, "configuration": configuration, "must_understand": extension.must_understand}


def _respelled(value: Any, member: str) -> Any:
    """Return `value` as the specification spells it, or an equal value if it has no other plain meaning."""
    name = _INDEX.sub("", member).rpartition(".")[2]
    if value is None or value == {}:
        return _ABSENT
    if isinstance(value, list):
        return [_respelled(each, "") if isinstance(each, bool | float | str | list) else each for each in value]
    if name in _PER_DIMENSION and isinstance(value, int | float | str):
        return [value]
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return integral(respelled_number(value))


def respelled_number(value: Any) -> Any:
    """Return the number that `value` is as text, such as "3" or "+inf", or as a bool; otherwise `value` itself."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return value
    text = value.strip()
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def integral(value: Any) -> Any:
    """Return a float without a fraction as an integer, and any other value itself."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _respelled_option(value: Any, member: str, ndim: int) -> Any:
    if value in ("C", "F") and member.endswith(".order"):
        # The first text of the specification 3.0 had these names.
        return list(range(ndim))[:: 1 if value == "C" else -1]
    return _respelled(value, member)


def _respelled_grid(grid: dict[str, Any], metadata: ArrayMetadata) -> dict[str, Any]:
    name = "chunk_shape" if grid["name"] == "regular" else "chunk_shapes"
    lengths = _respelled(grid["configuration"].get(name), name)
    if not isinstance(lengths, list):
        return grid
    if name == "chunk_shape":
        lengths = [_smallest_chunk(metadata, axis) if length == 0 else length for axis, length in enumerate(lengths)]
        are_lists = [isinstance(length, list) for length in lengths]
        if any(are_lists) and not all(are_lists):
            # zarr-python 3.2 stored chunks of differing lengths in this way.
            return grid | {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": lengths}}
    return grid | {"configuration": {**grid["configuration"], name: lengths}}


def _smallest_chunk(metadata: ArrayMetadata, axis: int) -> int:
    """Return the length that a chunk length of 0 stands for. No chunk can have been stored under it."""
    for codec in metadata.codecs:
        inner = codec.configuration.get("chunk_shape")
        if codec.name == "sharding_indexed" and isinstance(inner, list) and axis < len(inner):
            length = integral(respelled_number(inner[axis]))
            return length if isinstance(length, int) else 1
    return 1


def _without_option(
    points: Mapping[str, Any], member: str, metadata: ArrayMetadata, defaults: Callable[[str], Mapping[str, Any]]
) -> Any:
    """Return the extensions without an option of a compressor; if it is missing, with its default; else None."""
    path, _, option = member.rpartition(".")
    codec: Any = points
    try:
        for step in _steps(path.removesuffix(".configuration")):
            codec = codec[step]
        name = str(codec["name"] if "name" in codec else codec["id"])
    except (KeyError, IndexError, TypeError):
        return None
    if option not in _OPTIONS or name.removeprefix("numcodecs.") not in _COMPRESSORS:
        return None
    default = {**defaults(name), "typesize": metadata.dtype.itemsize}.get(option, _ABSENT)
    return _changed(points, member, lambda value: default if value is _ABSENT else _ABSENT)


def _changed(value: Any, path: str, change: _Change, duplicates: dict[int, str] | None = None) -> Any:
    """Return a copy of an object with the value at `path` changed, or None if nothing changes.

    The path of an item of a list stands for the list. A duplicate key of an object that is copied stays recorded.
    """
    steps = _steps(_INDEX.sub("", path))
    new = _descend(value, steps, change, {} if duplicates is None else duplicates)
    return None if new is value or new is _ABSENT else new


def _steps(path: str) -> list[str | int]:
    return [name or int(index) for name, index in _STEP.findall(path)]


def _descend(at: Any, steps: Sequence[str | int], change: _Change, duplicates: dict[int, str]) -> Any:
    if not steps:
        new = change(at)
        return at if repr(new) == repr(at) else new
    step = steps[0]
    if isinstance(at, dict) and (step in at or len(steps) == 1):
        inner = at.get(step, _ABSENT)
    elif isinstance(at, list) and isinstance(step, int) and step < len(at):
        inner = at[step]
    else:
        return at
    new = _descend(inner, steps[1:], change, duplicates)
    if new is inner or (new is _ABSENT and isinstance(at, list)):
        return at
    copy = at.copy()
    if id(at) in duplicates:
        duplicates[id(copy)] = duplicates[id(at)]
    if new is _ABSENT:
        del copy[step]
    else:
        copy[step] = new
    return copy
