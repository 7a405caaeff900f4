"""Commands on nodes and their metadata: info, tree, mv, consolidate and plan."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aiozarr.cli.help import command
from aiozarr.cli.output import Output, output_options
from aiozarr.cli.selections import select_option, select_view
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, local_path, run, store_options
from aiozarr.common.formatting import format_count

if TYPE_CHECKING:
    from aiozarr.engine import Plan
    from aiozarr.hierarchy import Array, Group

T = TypeVar("T")


async def with_node(target: str, options: StorageOptions, function: Callable[[Any], Awaitable[T]]) -> T:
    """Open the node `target` and await `function` with it."""
    from aiozarr.hierarchy.internal import open_node

    async with open_node(target, storage_options=options) as node:
        return await function(node)


async def with_array(target: str, options: StorageOptions, function: Callable[[Array], Awaitable[T]]) -> T:
    """Open the array `target` and await `function` with it.

    Raises:
        NodeTypeError: it is a group; the error names the arrays in it.
    """

    async def use(node: Array | Group) -> T:
        return await function(await check_array(node, target))

    return await with_node(target, options, use)


async def check_array(node: Array | Group, target: str) -> Array:
    """Return the node `target` if it is an array.

    Raises:
        NodeTypeError: it is a group; the error names the arrays in it.
    """
    from aiozarr.errors import NodeTypeError
    from aiozarr.hierarchy import Array

    if isinstance(node, Array):
        return node
    error = NodeTypeError(f"{target} is a group, not an array", url=node.url, path=node.path)
    if node.metadata.consolidated is not None or node.store.supports.listable:
        names = [name async for name, _ in node.arrays()]
        if names:
            shown = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
            error.message += f"; its arrays are {shown}: name one of them, such as {target.rstrip('/')}/{names[0]}"
    raise error


@command("aiozarr info s3://bucket/era5.zarr", "aiozarr info --attributes era5.zarr/t2m")
@click.argument("target")
@click.option("-a", "--attributes", is_flag=True, help="Show the attributes too.")
@store_options
@output_options
def info(target: str, attributes: bool, stores: TargetOptions, out: Output) -> None:
    """Show the metadata of the array or group TARGET.

    Stored objects and their bytes are counted by listing them.
    """

    async def facts(node: Array | Group) -> tuple[Any, dict[str, Any], tuple[str | None, ...] | None]:
        return await node.info(), dict(node.attrs), getattr(node, "dimension_names", None)

    found, attrs, names = run(lambda: with_node(target, stores.of(target), facts))
    record = {key: value for key, value in found.as_dict().items() if key != "attributes"}
    lines = str(found).split("\n")
    if found.type == "Array":
        record["dimension_names"] = names
        if names:
            width = lines[0].index(":") - 1
            lines.append(f"{'dimension names':<{width}} : {', '.join([str(name) for name in names])}")
    record["attributes"] = attrs
    if attributes and attrs and not out.as_json:
        import json

        lines += ["", *json.dumps(attrs, indent=2, ensure_ascii=False, default=str).split("\n")]
    out.record(record, *lines)


@command("aiozarr tree s3://bucket/era5.zarr", "aiozarr tree --depth 1 era5.zarr")
@click.argument("target")
@click.option("-L", "--depth", type=click.IntRange(1), help="Show only this many levels.")
@store_options
@output_options
def tree(target: str, depth: int | None, stores: TargetOptions, out: Output) -> None:
    """Show the groups and arrays below TARGET, with the shapes and types of the arrays.

    If the store has consolidated metadata, this takes one request. An array or group that cannot be read is shown with
    the reason.
    """
    depth = None if depth is None else depth - 1
    options = stores.of(target)
    if out.as_json:
        with iterated(_node_records(target, options, depth)) as items:
            for record in items:
                out.record(record, "")
        return

    async def lines(node: Array | Group) -> list[str]:
        from aiozarr.hierarchy import Group

        if isinstance(node, Group):
            return (await node.tree(depth)).split("\n")
        return [f"/{node.path} {node.shape} {node.metadata.data_type.name}"]

    out.record({}, *run(lambda: with_node(target, options, lines)))


async def _node_records(
    target: str, options: StorageOptions, depth: int | None
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the record of each node, the root first."""
    from aiozarr.hierarchy import Group
    from aiozarr.hierarchy.internal import listed_levels, open_node

    async with open_node(target, storage_options=options) as node:
        yield _node_record("", node.metadata)
        if isinstance(node, Group):
            async with aclosing(listed_levels(node, depth)) as levels:
                async for batch in levels:
                    for listed in batch:
                        yield _node_record(listed.name, listed.metadata)


def _node_record(name: str, metadata: Any) -> dict[str, Any]:
    from aiozarr.metadata.records import ArrayMetadata

    error = metadata if isinstance(metadata, Exception) else None
    array = metadata if isinstance(metadata, ArrayMetadata) else None
    return {
        "path": name,
        "kind": "unreadable" if error else "group" if array is None else "array",
        "zarr_format": getattr(metadata, "zarr_format", None),
        "shape": None if array is None else array.shape,
        "data_type": None if array is None else array.data_type.name,
        "dimension_names": None if array is None else array.dimension_names,
        "error": str(error) if error else None,
    }


@command(
    "aiozarr mv era5.zarr/t2m era5.zarr/surface/t2m", "aiozarr mv s3://bucket/era5.zarr/v10 s3://bucket/era5.zarr/v"
)
@click.argument("src")
@click.argument("dst")
@store_options
@output_options
def mv(src: str, dst: str, stores: TargetOptions, out: Output) -> None:
    """Move the array or group SRC to the name DST in the same store.

    Stores cannot rename, so every object is copied and then erased. SRC disappears only after DST is complete; if the
    command is interrupted, the same command continues. A DST that exists is never replaced. Consolidated metadata of
    the groups above are updated.

    To move to another store, use cp and then rm -r.
    """
    group, old, new = _common_group(src, dst)

    async def move() -> None:
        from aiozarr.errors import NodeExistsError, NodeNotFoundError
        from aiozarr.hierarchy import open_group
        from aiozarr.hierarchy.internal import group_keys

        async with await open_group(group, mode="r+", storage_options=stores.of(group)) as opened:
            # Below a directory or bucket without a document, SRC and DST are stores of their own.
            if not any([await opened.store.stat(key) for key in group_keys()]):
                raise NodeNotFoundError(f"{src} and {dst} are not in the same store; {_ACROSS_STORES}", url=group)
            try:
                await opened.move(old, new)
            except NodeExistsError as error:
                error.message = f"something else is already stored at {dst}, and mv never replaces it"
                raise

    run(move)
    if out.as_json:
        out.record({"source": src, "destination": dst}, "")
    out.say(f"{src} -> {dst}")


_ACROSS_STORES = "use cp and then rm -r to move between stores"


def _common_group(source: str, destination: str) -> tuple[str, str, str]:
    """Return the location that contains both targets, and their paths in it.

    Raises:
        UsageError: they are not in the same store, or one is inside the other.
    """
    old, new = [(local_path(target) or target).rstrip("/").split("/") for target in (source, destination)]
    common = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    group = "/".join(old[:common])
    if not group or group.endswith(":/"):
        raise click.UsageError(f"{source} and {destination} are not in the same store; {_ACROSS_STORES}")
    if common in (len(old), len(new)):
        raise click.UsageError(f"{source} cannot be moved to {destination}, because one contains the other")
    return group, "/".join(old[common:]), "/".join(new[common:])


@command("aiozarr consolidate era5.zarr", "aiozarr consolidate s3://bucket/era5.zarr")
@click.argument("target")
@store_options
@output_options
def consolidate(target: str, stores: TargetOptions, out: Output) -> None:
    """Write the metadata of everything below the group TARGET into its own document.

    Readers then open the whole group with one request. Consolidate again after other programs have changed the group.
    """

    async def work() -> tuple[str, int, int]:
        from aiozarr.hierarchy import consolidate_metadata

        async with await consolidate_metadata(target, storage_options=stores.of(target)) as group:
            nodes = group.metadata.consolidated
            return group.url, group.zarr_format, 0 if nodes is None else len(nodes.nodes)

    url, zarr_format, nodes = run(work)
    if out.as_json:
        out.record({"url": url, "zarr_format": zarr_format, "nodes": nodes}, "")
    out.say(f"{url}: consolidated metadata of {format_count(nodes, 'node')}")


@command("aiozarr plan s3://bucket/era5.zarr/t2m", "aiozarr plan --probe --select time=0:24 era5.zarr/t2m")
@click.argument("target")
@select_option
@click.option("--probe", is_flag=True, help="Fetch shard indexes and sizes for an exact plan.")
@store_options
@output_options
def plan(target: str, select: Any, probe: bool, stores: TargetOptions, out: Output) -> None:
    """Show the requests and bytes that a read of the array TARGET, or of a selection, would take.

    Without --probe only metadata are fetched, and the plan has bounds instead of exact numbers.
    """

    async def make(array: Array) -> Plan:
        view = await select_view(array, select)
        return await view.probe() if probe else view.plan()

    options = stores.of(target)
    found = run(lambda: with_array(target, options, make))
    out.record(_plan_record(found), *str(found).split("\n"))


_PLAN_MEMBERS = (
    *("array", "shape", "exact", "sharded", "chunks", "inner_chunks", "missing"),
    *("requests", "min_requests", "bytes", "bytes_wanted", "over_read"),
)


def _plan_record(plan: Plan) -> dict[str, Any]:
    record = {name: getattr(plan, name) for name in _PLAN_MEMBERS}
    ranges = [None if row.range is None else str(row.range) for row in plan.rows]
    record["rows"] = [{**asdict(row), "range": text} for row, text in zip(plan.rows, ranges, strict=True)]
    return record
