"""Opens stored arrays and groups by URL, local path or store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, TypeVar

from aiozarr.engine.open_store import Target, check_schemes
from aiozarr.errors import InvalidMetadataError, NodeExistsError
from aiozarr.hierarchy.array import Array, make_array
from aiozarr.hierarchy.changes import changes_of
from aiozarr.hierarchy.node import HandleOptions, MakeNode, Mode, Node, check_store_writable
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    check_format,
    read_explicit,
    run_at_target,
    search_node,
)
from aiozarr.hierarchy.opening import check_no_mode, missing_node_error, opens, unknown_keyword_error
from aiozarr.schedule.events import observed
from aiozarr.settings import Settings
from aiozarr.stores import Store

if TYPE_CHECKING:
    from aiozarr.hierarchy.group import AnyNode, Group
    from aiozarr.hierarchy.new_metadata_v3 import DataTypeLike

OpenMode: TypeAlias = Literal["r", "r+", "a"]
N = TypeVar("N", bound=Node[Any])


@opens
async def open(  # noqa: A001  # the public name
    target: Target,
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> AnyNode:
    """Open the array or group at `path` inside `target`.

    The result is an async context manager. Leaving it closes the store if `open` created it.

    Args:
        target: a URL, a local path, a `Store`, or an object with obspec's methods, such as an obstore store.
        path: the node's path inside `target`, such as `"a/b"`; `""` is the target itself.
        mode: "r": writes raise; "r+": writes are allowed.
        zarr_format: the required format of the node. None: any; with several formats at one path, 3 comes before 2
            and 2 before 1. All documents are probed concurrently, so None costs no extra round trip.
        storage_options: options of the store, if `target` is a URL, in fsspec's form.
        settings: limits and policies of reads and writes.
        schemes: the schemes that a location may have, such as `("s3", "https")`, for services that open what their
            users name. A local path has the scheme `file`; each link of a chain needs its own.

    Raises:
        NodeNotFoundError: there is no node, or no node with this `zarr_format`; also a `FileNotFoundError`.
        InvalidMetadataError, UnsupportedMetadataError: its document cannot be read.
        UnknownSchemeError: no store opens such URLs, or `schemes` does not allow them.
        InvalidKeyError: `path` is not a valid path of a node.
        StoreError: the store could not be read.
        TypeError, ValueError: an argument has a wrong type or value.
    """
    from aiozarr.hierarchy.group import make_node

    check_schemes(target, schemes)
    if str(mode) == "a":
        raise ValueError(
            "open does not support mode 'a', because it cannot know what to create; use open_array or open_group"
        )
    return await _open(make_node, target, path, mode, zarr_format, storage_options, settings)


@opens
async def open_array(
    target: Target,
    path: str = "",
    *,
    mode: OpenMode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
    **create_options: Any,
) -> Array:
    """Open the array at `path` inside `target`; arguments and errors are the same as for `open`.

    With `mode="a"`, the array is created if there is no node, and can be written. `create_options` are then keywords of
    `create_array`, `shape` and `dtype` among them, which apply only if the array is created.

    Raises:
        NodeTypeError: the node is a group.
    """
    check_schemes(target, schemes)
    _check_mode(mode, path)
    if mode != "a":
        if create_options:
            from aiozarr.hierarchy.new_metadata import DEFAULTS

            name = next(iter(create_options))
            if name in DEFAULTS or name in ("shape", "dtype"):
                raise TypeError(f"{name!r} describes a new array; use it with mode='a' or create_array")
            raise unknown_keyword_error("open_array", name, _KEYWORDS)
        return await _open(make_array, target, path, mode, zarr_format, storage_options, settings)
    if "data" in create_options:
        raise TypeError("open_array does not write values; use create_array(..., data=values)")
    metadata = None
    if create_options:
        from aiozarr.hierarchy.new_metadata import new_array_metadata

        metadata = new_array_metadata(3 if zarr_format is None else zarr_format, create_options, function="open_array")
    return await _open(
        make_array,
        target,
        path,
        mode,
        zarr_format,
        storage_options,
        settings,
        create=metadata,
        creates="shape= and dtype=",
    )


@opens
async def open_group(
    target: Target,
    path: str = "",
    *,
    mode: OpenMode = "r",
    zarr_format: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    use_consolidated: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> Group:
    """Open the group at `path` inside `target`; arguments and errors are the same as for `open`.

    With `mode="a"`, the group is created with `attributes` if there is no node, and can be written.
    `use_consolidated=False` ignores consolidated metadata, and reads and lists the nodes themselves. True requires
    consolidated metadata, and None uses them if there are any.

    Raises:
        NodeTypeError: the node is an array.
        InvalidMetadataError: `use_consolidated` is True, and the group has no consolidated metadata.
    """
    from aiozarr.hierarchy.group import make_group

    check_schemes(target, schemes)
    _check_mode(mode, path)
    if mode != "a" and attributes is not None:
        raise TypeError("'attributes' describes a new group; use it with mode='a' or create_group")
    metadata = None
    if mode == "a":
        from aiozarr.hierarchy.new_metadata import new_group_metadata

        metadata = new_group_metadata(3 if zarr_format is None else zarr_format, attributes)

    def make(store: Store, path: str, metadata: NodeMetadata, options: HandleOptions) -> Group:
        group = make_group(store, path, metadata, options)
        if use_consolidated and group.metadata.consolidated is None:
            raise InvalidMetadataError(
                f"{group.url} has no consolidated metadata; use_consolidated=None falls back to the nodes themselves",
                node=group.url,
            )
        if use_consolidated is False and group.metadata.consolidated is not None:
            return make_group(store, path, replace(group.metadata, consolidated=None), options)
        return group

    return await _open(
        make,
        target,
        path,
        mode,
        zarr_format,
        storage_options,
        settings,
        create=metadata,
        use_consolidated=use_consolidated is not False,
    )


@opens
async def require_group(
    target: Target,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Group:
    """Open the group at `path` for writing, or create it with these attributes if there is no node.

    Arguments and errors are the same as for `open_group` with `mode="a"`.
    """
    from aiozarr.hierarchy.group import make_group
    from aiozarr.hierarchy.new_metadata import new_group_metadata

    metadata = new_group_metadata(3 if zarr_format is None else zarr_format, attributes)
    return await _open(make_group, target, path, "a", zarr_format, storage_options, settings, create=metadata)


@opens
async def require_array(
    target: Target,
    path: str = "",
    *,
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DataTypeLike,
    exact: bool = False,
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    **create_options: Any,
) -> Array:
    """Open the array at `path` for writing, or create it if there is no node.

    An existing array must have this shape, and a type that casts safely to `dtype` (with `exact`, the same type). The
    other keywords of `create_array` apply only if it is created.

    Raises:
        TypeError: the existing array has another shape or type.
        NodeTypeError: the node is a group.
    """
    from aiozarr.hierarchy.group import check_matches
    from aiozarr.hierarchy.new_metadata import new_array_metadata

    if "data" in create_options:
        raise TypeError("require_array does not write values; use create_array(..., data=values)")
    options = {"shape": shape, "dtype": dtype, **create_options}
    metadata = new_array_metadata(3 if zarr_format is None else zarr_format, options, function="require_array")

    def make(store: Store, path: str, metadata: NodeMetadata, options: HandleOptions) -> Array:
        return check_matches(make_array(store, path, metadata, options), shape, dtype, exact=exact)

    return await _open(make, target, path, "a", zarr_format, storage_options, settings, create=metadata)


@observed("open", lambda node, *_: None if node is None else node.url)
async def _open(
    make: MakeNode[N],
    target: Target,
    path: str,
    mode: OpenMode,
    zarr_format: int | None,
    storage_options: Mapping[str, Any] | None,
    settings: Settings | None,
    *,
    create: NodeMetadata | None = None,
    creates: str | None = None,
    use_consolidated: bool = True,
) -> N:
    """Open a node. With mode "a", create it from the metadata `create` if there is none."""
    _check_mode(mode, path)
    check_format(zarr_format)

    async def find(access: NodeAccess, owns_store: bool) -> N:
        access = access._replace(use_consolidated=use_consolidated)
        # Counted before the documents are read, so that a change made meanwhile counts as later.
        seen_changes = changes_of(access.engine).count(access.store)

        def handle(metadata: NodeMetadata) -> N:
            kind: Mode = "r" if mode == "r" else "r+"
            return make(
                access.store,
                access.path,
                metadata,
                HandleOptions(access.settings, kind, owns_store, seen_changes=seen_changes),
            )

        metadata, other = await search_node(access, zarr_format)
        if metadata is None and create is not None:
            node = handle(create)
            check_store_writable(access.store)
            from aiozarr.hierarchy.node_changes import create_all

            try:
                await create_all([access], [create], overwrite=False)
                node._mark_stored()
                return node
            except NodeExistsError:
                # Another task has created it meanwhile, or chunks without a document are stored there.
                metadata = await read_explicit(access, zarr_format)
                if metadata is None:
                    raise
        if metadata is None:
            error = await missing_node_error(access, zarr_format, other=other, may_be_mode=True)
            if mode == "a" and creates is not None:
                error.message += f"; with {creates}, mode='a' creates it"
            raise error
        return handle(metadata)

    return await run_at_target(
        find, target, path, zarr_format=zarr_format, storage_options=storage_options, settings=settings
    )


def _check_mode(mode: object, path: object) -> None:
    check_no_mode(path)
    if mode not in ("r", "r+", "a"):
        advice = {
            "w": "; create_array and create_group with overwrite=True replace what is stored",
            "w-": "; create_array and create_group create, and refuse to replace",
            "x": "; create_array and create_group create, and refuse to replace",
        }.get(str(mode), "; create_array and create_group create")
        raise ValueError(f"mode must be 'r', 'r+' or 'a', not {mode!r}{advice}")


_KEYWORDS = ("path", "mode", "zarr_format", "storage_options", "settings")
