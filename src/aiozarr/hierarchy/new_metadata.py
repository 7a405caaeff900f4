"""Makes the metadata of a new node of any format, and refuses options of other formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any, Literal, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.common.formatting import argument
from aiozarr.engine import Engine, run
from aiozarr.hierarchy.attributes import checked_attributes
from aiozarr.hierarchy.casting import convert_values, is_large_cast
from aiozarr.hierarchy.new_array_layout import ChunksLike, CodecLike, CodecsLike, ShardsLike
from aiozarr.hierarchy.new_metadata_v2 import CompressorLike, new_v1_array, new_v2_array
from aiozarr.hierarchy.new_metadata_v3 import KeyEncodingLike, TransformerLike, check_shape, new_v3_array
from aiozarr.hierarchy.node_access import NodeMetadata, check_format
from aiozarr.hierarchy.opening import unknown_keyword_error
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata


class ArrayOptions(TypedDict, total=False):
    """The keywords of `create_array` that `Group.create_array` has too; the former's documentation describes them."""

    chunks: ChunksLike
    shards: ShardsLike
    codecs: CodecsLike
    fill_value: ArrayLike | None
    order: Literal["C", "F"]
    dimension_names: Iterable[str | None] | None
    attributes: Mapping[str, Any] | None
    chunk_key_encoding: KeyEncodingLike
    storage_transformers: Iterable[TransformerLike]
    filters: CodecsLike | None
    serializer: CodecLike
    compressors: CodecsLike | None
    compressor: CompressorLike
    dimension_separator: Literal[".", "/"] | None


class AnyFormatOptions(ArrayOptions, total=False):
    """These keywords, and those of format 1, which has no groups."""

    compression: str | None
    compression_opts: Any


_COMPRESSIONS = ("codecs", "filters", "serializer", "compressors", "compressor", "compression")
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(AnyFormatOptions.__annotations__),
    **dict.fromkeys(("chunks", *_COMPRESSIONS), "auto"),
    "order": "C",
    "storage_transformers": (),
}
"""The defaults of these keywords."""
F = TypeVar("F", bound=Callable[..., Any])

_MAKERS: dict[int, Any] = {3: new_v3_array, 2: new_v2_array, 1: new_v1_array}
_SUPPORTED = {number: [*signature(maker).parameters] for number, maker in _MAKERS.items()}


def with_options(options: type[ArrayOptions]) -> Callable[[F], F]:
    """Return a decorator that lists the members of `**options: Unpack[...]`, with their defaults, in the signature."""

    def decorate(function: F) -> F:
        own = signature(function)
        parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        place = next(i for i, each in enumerate(parameters, 1) if each.name in ("data", "exact"))
        parameters[place:place] = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=DEFAULTS[name],
                annotation=getattr(kind, "__forward_arg__", kind),  # as text, like the others
            )
            for name, kind in options.__annotations__.items()
        ]
        function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


def new_array_metadata(zarr_format: int, options: Mapping[str, Any], function: str = "create_array") -> ArrayMetadata:
    """Return the metadata of a new array; `options` are the keywords of `create_array`, given to `function`.

    Raises:
        TypeError: an option is unknown, missing, or of another format.
        ValueError, InvalidMetadataError, UnsupportedMetadataError: as `create_array`.
    """
    check_format(zarr_format)
    supported = [name for name in _SUPPORTED[zarr_format] if name != "zarr_format"]
    unknown = [name for name in options if name not in DEFAULTS and name not in ("shape", "dtype")]
    if unknown:
        raise unknown_keyword_error(function, unknown[0], (*DEFAULTS, "shape", "dtype"))
    for name in ("shape", "dtype"):
        if name not in options:
            raise TypeError(f"{function} needs {argument(name)} to create an array")
    for name, value in options.items():
        if name not in supported and not _is_default(name, value):
            formats = [str(number) for number, names in _SUPPORTED.items() if name in names]
            hint = f"; use {'compressors' if 'compressors' in supported else 'compression'}= instead"
            raise TypeError(
                f"{argument(name)} is an option of format {' or '.join(formats)}, not of format {zarr_format}"
                f"{'' if name == 'serializer' or name not in (*_COMPRESSIONS, 'compression_opts') else hint}"
            )
    given = DEFAULTS | dict(options)
    metadata: ArrayMetadata = _MAKERS[zarr_format](**{name: given[name] for name in supported})
    return metadata


async def new_array_with_data(
    zarr_format: int, options: Mapping[str, Any], data: ArrayLike | None
) -> tuple[ArrayMetadata, NDArray[Any] | None]:
    """Return the metadata of a new array, and the values to write into it: `data`, cast in a worker if they are many.

    Without data, `options` have `shape` and `dtype`. With data, both are those of the data, unless given.

    Raises:
        TypeError: `shape` or `dtype` is missing, or the data are cast to `dtype` with a loss; also as
            `new_array_metadata`.
        ValueError: `shape` is not that of the data; also as `new_array_metadata`.
    """
    shape, dtype = options["shape"], options["dtype"]
    if data is None:
        if shape is None or dtype is None:
            missing = "shape" if shape is None else "dtype"
            raise TypeError(f"create_array needs {missing}=, or data= with the values to write")
        return new_array_metadata(zarr_format, options), None
    try:
        values = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"data= is not an array: {error}") from error
    if shape is not None and check_shape(shape) != values.shape:
        raise ValueError(f"shape is {check_shape(shape)}, but the data have the shape {values.shape}")
    given = {"shape": values.shape, "dtype": values.dtype if dtype is None else dtype}
    metadata = new_array_metadata(zarr_format, {**options, **given})
    # Before anything is stored, because data that do not fit must not leave an empty array. Python's numbers and
    # strings are cast as such, and not as the type that numpy would choose.
    natural = values if hasattr(data, "__array__") else data
    if not is_large_cast(natural, metadata.dtype):
        return metadata, convert_values(natural, metadata.dtype)

    async def cast(engine: Engine) -> NDArray[Any]:
        return await engine.run_in_worker(lambda: convert_values(values, metadata.dtype), values.nbytes)

    return metadata, await run(cast)


def new_group_metadata(zarr_format: int, attributes: Mapping[str, Any] | None) -> GroupMetadata:
    """Return the metadata of a new group.

    Raises:
        ValueError: format 1, which has no groups, or an unknown format.
        TypeError: `attributes` are not JSON values.
    """
    check_format(zarr_format)
    rules = rules_of(zarr_format)
    if not rules.has_groups:
        raise ValueError(f"format {zarr_format} does not support groups")
    checked = checked_attributes(attributes, finite=rules.has_finite_attributes)
    return GroupMetadata(zarr_format=zarr_format, attributes=checked, extra={})


def new_node_metadata(description: object, zarr_format: int) -> NodeMetadata:
    """Return the metadata of one entry of `create_hierarchy`: metadata, or the keywords of an array or a group.

    Raises:
        TypeError: it is neither.
        ValueError: the metadata are of another format.
    """
    if isinstance(description, ArrayMetadata | GroupMetadata):
        if description.zarr_format != zarr_format:
            raise ValueError(
                f"a group of format {zarr_format} cannot contain metadata of format {description.zarr_format}"
            )
        return description
    if not isinstance(description, Mapping):
        raise TypeError(
            f"describe a node with its metadata or a mapping of keywords, not with {type(description).__name__}"
        )
    if "shape" in description or "dtype" in description:
        return new_array_metadata(zarr_format, description)
    unknown = set(description) - {"attributes"}
    if unknown:
        raise TypeError(f"unknown option {min(map(str, unknown))!r} of a group; an array needs a shape and a dtype")
    return new_group_metadata(zarr_format, description.get("attributes"))


def _is_default(name: str, value: Any) -> bool:
    default = DEFAULTS[name]
    return value is default or (isinstance(value, str) and value == default)
