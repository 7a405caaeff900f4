"""`open` for everything that can be opened: specs go to the driver, other targets to the hierarchy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, overload

from aiozarr.driver.spec import Spec, is_spec
from aiozarr.driver.stored_array import open_stored
from aiozarr.driver.tensor_view import TensorView
from aiozarr.engine import Target, check_schemes
from aiozarr.errors import NodeNotFoundError
from aiozarr.hierarchy.internal import AnyNode, Mode, Opening, open_node, opens
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore


@overload
def open(  # noqa: A001  # the public name
    target: Mapping[str, Any],
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> Opening[TensorView]: ...
@overload
def open(  # noqa: A001  # the public name
    target: Target,
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> Opening[AnyNode]: ...
@opens  # type: ignore[misc]  # a spec gives a view, and any other target a node
async def open(  # noqa: A001  # the public name
    target: Target | Mapping[str, Any],
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> AnyNode | TensorView:
    """Open the array or group at `path` inside `target`, or the array that a TensorStore JSON spec describes.

    The result is an async context manager. Leaving it closes the store if `open` created it.

    A spec is a mapping, `{"driver": "zarr3", "kvstore": ..., ...}`, or a URL pipeline, `"s3://bucket/a/|zarr3:"`. It
    opens or creates an array as a `TensorView`, and allows no other argument than `schemes`.

    Args:
        target: a URL, a local path, a `Store`, or a spec.
        path: the node's path inside `target`, such as `"a/b"`; `""` is the target itself.
        mode: "r": writes raise; "r+": writes are allowed. A `TensorView` can be written.
        zarr_format: the required format of the node. None: any; with several formats at one path, 3 comes before 2
            and 2 before 1. All documents are probed concurrently, so None costs no extra round trip.
        storage_options: options of the store, if `target` is a URL, in fsspec's form.
        settings: limits and policies of reads and writes.
        schemes: the schemes that a location may have, such as `("s3", "https")`, for services that open locations given
            by their users. A local path has the scheme `file`; every link of a chain is checked. Specs and their
            endpoints are checked too.

    Raises:
        NodeNotFoundError: there is no node, or no node with this `zarr_format`; also a `FileNotFoundError`.
        NodeExistsError: a spec only creates, but there is already an array.
        InvalidMetadataError, UnsupportedMetadataError: its document cannot be read.
        InvalidSpecError: a spec is not valid; the error names the member.
        SpecMismatchError: the stored array does not satisfy a spec; the error has the member, the constraint and the
            stored value.
        UnknownSchemeError: no store opens such URLs, or `schemes` does not allow them.
        InvalidKeyError: `path` is not a valid path of a node.
        StoreError: the store could not be read.
        TypeError, ValueError: an argument has a wrong type or value, or is given with a spec.
    """
    return await open_any(
        target,
        path,
        mode=mode,
        zarr_format=zarr_format,
        storage_options=storage_options,
        settings=settings,
        schemes=schemes,
    )


async def open_any(
    target: Target | Mapping[str, Any],
    path: str,
    *,
    mode: Mode,
    zarr_format: int | None,
    storage_options: Mapping[str, Any] | None,
    settings: Settings | None,
    schemes: Collection[str] | None,
) -> AnyNode | TensorView:
    """Open any target, for callers that do not know its kind; arguments and errors are the same as for `open`."""
    options: dict[str, Any] = {
        "zarr_format": zarr_format,
        "storage_options": storage_options,
        "settings": settings,
    }
    if not is_spec(target):
        assert not isinstance(target, Mapping)
        return await open_node(target, path, mode=mode, schemes=schemes, **options)
    given = {"path": path, **options}
    others = [name for name, value in given.items() if value] + (["mode"] if mode != "r" else [])
    if others:
        raise TypeError(f"{', '.join(others)} cannot be used with a spec; set members of the spec instead")
    return await open_spec(target, schemes)


async def open_spec(spec: Any, schemes: Collection[str] | None = None) -> TensorView:
    """Open the array that a spec describes, a mapping or a URL pipeline; raises the errors of `open`."""
    parsed = _parse(spec, schemes)
    target = parsed.kvstore.target
    check_schemes("memory://" if isinstance(target, MemoryStore) else target, schemes)
    if endpoint := parsed.kvstore.options.get("endpoint_url"):
        check_schemes(endpoint, schemes)
    try:
        stored = await open_stored(parsed)
    except NodeNotFoundError:
        if not parsed.is_automatic:
            raise
        # The newer format comes first, as for other targets.
        parsed = _parse(spec, schemes, automatic="zarr")
        stored = await open_stored(parsed)
    return TensorView(stored, parsed.view_transform(stored.facts))


def _parse(spec: Any, schemes: Collection[str] | None, **keywords: Any) -> Spec:
    """Parse a spec. With `schemes` it is a stranger's, whose endpoint gets no credentials of this machine."""
    parsed = Spec.parse(spec, **keywords)
    options = parsed.kvstore.options
    if schemes is None or "endpoint_url" not in options:
        return parsed
    return replace(parsed, kvstore=replace(parsed.kvstore, options={**options, "foreign_endpoint": True}))
