"""`convert` and `plan_conversion`: arrays and trees in another format, layout, compression or data type."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from aiozarr.common.concurrency import map_concurrently
from aiozarr.common.formatting import printable
from aiozarr.common.progress import ProgressLike, shown_progress
from aiozarr.conversion.conversion_journal import ConversionReport
from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_planning import ConversionPlanner
from aiozarr.conversion.conversion_run import ConversionRun
from aiozarr.conversion.named_selection import NamedSelection, select_bounds
from aiozarr.conversion.options import ChunksOption, ConversionOptions, RegionLike, ShardsOption
from aiozarr.engine import Engine, Target, bind_callback, run
from aiozarr.hierarchy import Array, Group, internal
from aiozarr.hierarchy.internal import Casting, CodecsLike, DataTypeLike, open_node
from aiozarr.schedule.events import current_recorder, name_operation, observed
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.transfer import OnError
from aiozarr.transfer.copy import opened
from aiozarr.transfer.copy_rules import check_disjoint

MAX_NAMED = 5
"""The names in a note about a group."""


@observed("convert", lambda *_: None)
async def convert(
    source: Target,
    destination: Target,
    *,
    zarr_format: int | None = None,
    chunks: ChunksOption = None,
    shards: ShardsOption = None,
    codecs: CodecsLike | None = None,
    dtype: DataTypeLike | None = None,
    casting: Casting = "checked",
    region: RegionLike = None,
    select: NamedSelection | None = None,
    executor: Executor | None = None,
    max_memory: int | None = None,
    max_amplification: float = 3.0,
    temporary: Target | None = None,
    overwrite: bool = False,
    resume: bool = False,
    on_error: OnError = "raise",
    progress: ProgressLike = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> ConversionReport:
    """Convert the array or the tree at `source` into a new one at `destination`.

    Everything that the arguments do not change is kept: the format of each node, chunks, shards, codecs, the order of
    elements, chunk keys, attributes, dimension names, fill values and consolidated metadata. Files in groups that do
    not belong to a node are not copied; `ConversionReport.notes` names them. The work is split into tasks, whose
    regions consist of whole stored objects of the destination. Each object is written once and whole, by one task.
    Metadata documents are written last, so a conversion that is interrupted never looks complete.

    If reading regions of the destination would read the source more than `max_amplification` times, the conversion
    goes through intermediate arrays, by the algorithm of the package rechunker. `plan_conversion` shows the stages.

    Args:
        source: a URL, a local path, or a `Store`: an array, or a group with everything below it.
        destination: the location of the result, in the same forms. It must be empty unless `overwrite` or `resume` is
            true.
        zarr_format: the format of the result: 3, 2 or 1. None: each node keeps its format.
        chunks: chunks of the result in a form of `create_array`, or lengths by dimension name such as `{"time": -1}`,
            where other dimensions keep their lengths. None: the same as the source's.
        shards: shards of the result, in the same forms. False: none. None: the same as the source's, which must be
            multiples of the chunks. Formats 1 and 2 have no shards, so the inner chunks become the stored objects.
        codecs: codecs of the result, in a form of `create_array`. None: the source's codecs where the format of the
            result has them, else the defaults. For formats 2 and 1: one compressor, after filters.
        dtype: the type of the result's elements; None: the same as the source's.
        casting: the rule of the cast, as in `View.write`: "checked" raises for the first value out of range.
            The fill value is checked before anything is stored, the values of each region before it is written.
        region: slices of the source, as in `source[region]`: only these elements are converted. For a single array
            only.
        select: the part of each dimension to convert, by the name of the dimension, such as `{"time":
            "2020-06..2020-08", "lat": slice(60.0, 45.0), "x": slice(0, 24)}`. Integers are indexes; other numbers,
            times and texts are coordinates, and their slices include both bounds. A string alone has the form of the
            option `--select`: `"0:24"` is a slice of indexes, `"45..60"` is a range of coordinates. A single index or
            coordinate keeps the dimension, with length 1. Every array that has the dimension is cut, coordinates
            included. The coordinates of a dimension are the values of the one-dimensional array of its name, in the
            same group or a group above. If the source is a single array, the number of a dimension also works as its
            name: `{"0": slice(0, 24)}`.
        executor: where tasks run: any `concurrent.futures.Executor`, such as a `ProcessPoolExecutor` or
            `distributed.Client.get_executor()`. None: in this process. Other processes must reach both stores.
        max_memory: the most bytes of chunks and values that one process holds in memory. None:
            `Settings.max_bytes_in_flight`.
        max_amplification: the largest ratio of bytes read to bytes of the source without intermediate arrays.
        temporary: the location of intermediate arrays, which are erased at the end. None: below the destination.
        overwrite: first erase everything stored at the destination.
        resume: continue an interrupted conversion with the same arguments, and skip finished tasks. If there is none,
            start from the beginning.
        on_error: "raise" stops at the first task that fails; "continue" runs the others, and the report names it.
            The documents of an array with a failed task are not written.
        progress: called with `Progress`: tasks and their bytes. True draws a progress bar (needs the extra `cli`).
        source_options: options of the source, for a URL, as fsspec's users pass them.
        destination_options: options of the destination, for a URL.
        settings: limits and policies.

    Raises:
        NodeNotFoundError: there is no node at `source`.
        NodeExistsError: something is stored at `destination`. The message names the objects that `overwrite=True` would
            delete.
        CopyError: an interrupted conversion with other arguments is stored there, or the executor has lost its workers.
        TypeError, ValueError: an argument has a wrong type or value; the cast would lose the fraction of a value;
            source and destination overlap.
        SelectionError: no array has a dimension of `select`, the selection is empty, or coordinates are missing or
            cannot be compared.
        ImportError: `select` has times, and the package cftime is not installed.
        OverflowError: a value or the fill value is out of the range of `dtype`.
        InvalidMetadataError, UnsupportedMetadataError: the format of the result lacks a data type or a codec.
        LimitError: one stored object of the result needs more than `max_memory`.
        StoreError, CodecError: as `View.read` and `View.write`. `resume=True` then continues the conversion.
    """
    if on_error not in ("raise", "continue"):
        raise ValueError(f"on_error must be 'raise' or 'continue', not {on_error!r}")
    check_executor(executor)
    options = ConversionOptions(
        zarr_format, chunks, shards, codecs, dtype, casting, region, select, max_memory, max_amplification
    )
    settings = settings_or_default(settings)
    targets, target_options = (source, destination, temporary), (source_options, destination_options)
    report = current_recorder()

    async def work(engine: Engine) -> ConversionReport:
        async with AsyncExitStack() as stack:
            plan = await _plan(stack, targets, target_options, options, settings)
            execution = ConversionRun(
                engine, plan, settings=settings, report=report, progress=callback, on_error=on_error
            )
            await execution.prepare(overwrite=overwrite, resume=resume)
            await execution.run(executor)
            return await execution.finish()

    with shown_progress(progress, "converting") as shown:
        callback = bind_callback(shown)
        return await run(work, timeout=settings.timeout, callback=callback)


async def plan_conversion(
    source: Target,
    destination: Target,
    *,
    zarr_format: int | None = None,
    chunks: ChunksOption = None,
    shards: ShardsOption = None,
    codecs: CodecsLike | None = None,
    dtype: DataTypeLike | None = None,
    casting: Casting = "checked",
    region: RegionLike = None,
    select: NamedSelection | None = None,
    max_memory: int | None = None,
    max_amplification: float = 3.0,
    temporary: Target | None = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> ConversionPlan:
    """Return the plan of a conversion: stages, tasks, bytes, requests, amplification and memory.

    Only the metadata of the source is read. `print` and notebooks show the plan as a table. Arguments and errors are
    the same as for `convert`.
    """
    options = ConversionOptions(
        zarr_format, chunks, shards, codecs, dtype, casting, region, select, max_memory, max_amplification
    )
    settings = settings_or_default(settings)
    targets, target_options = (source, destination, temporary), (source_options, destination_options)

    async def work(_: Engine) -> ConversionPlan:
        async with AsyncExitStack() as stack:
            plan = await _plan(stack, targets, target_options, options, settings)
            stack.pop_all()  # the stores stay open because the tasks of the plan use them
            return plan

    return await run(work, timeout=settings.timeout)


async def _plan(
    stack: AsyncExitStack,
    targets: tuple[Target, Target, Target | None],
    target_options: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    options: ConversionOptions,
    settings: Settings,
) -> ConversionPlan:
    """Return the plan of a conversion between targets, from the metadata of the source.

    Args:
        stack: closes the stores that are made here.
        targets: the source, the destination, and the location of intermediate arrays.
        target_options: options of source and destination.
        options: the requested changes.
        settings: limits and policies.
    """
    source = await opened(stack, targets[0], target_options[0], settings)
    destination = await opened(stack, targets[1], target_options[1], settings)
    temporary = destination if targets[2] is None else await opened(stack, targets[2], None, settings)
    name_operation(destination.url)
    await check_disjoint(source, destination)
    nodes = await source_nodes(source, settings)
    bounds = {} if options.select is None else await select_bounds(nodes, options.select)
    plan = ConversionPlanner(destination, temporary, options, settings).plan(nodes, bounds)
    return replace(plan, notes={**plan.notes, **await _notes_of_others(nodes, plan.notes)})


async def _notes_of_others(nodes: Mapping[str, Array | Group], notes: Mapping[str, str]) -> dict[str, str]:
    """Return the notes of groups beside whose nodes something else is stored, which a conversion leaves out."""
    look = partial(internal.list_others, paths={node.path for node in nodes.values()})
    groups = [path for path, node in nodes.items() if isinstance(node, Group)]
    found: dict[str, str] = {}
    listed = await map_concurrently(lambda path: internal.run_on_io_thread(nodes[path], look), groups)
    for path, others in zip(groups, listed, strict=True):
        if others:
            names = printable(", ".join([*others[:MAX_NAMED], *["…"][: len(others) - MAX_NAMED]]))
            note = f"not converted, because it is not part of a node: {names}"
            found[path] = f"{notes[path]}; {note}" if path in notes else note
    return found


async def source_nodes(store: Store, settings: Settings, zarr_format: int | None = None) -> dict[str, Array | Group]:
    """Return the node at the root of a store, and all nodes below, by path.

    Raises:
        NodeNotFoundError: there is no node.
        UnsupportedOperationError: the store cannot list, and the group is not consolidated.
        MetadataError: a document cannot be read.
    """
    return await nodes_from(await open_node(store, zarr_format=zarr_format, settings=settings))


async def nodes_from(root: Array | Group) -> dict[str, Array | Group]:
    """Return a node, and all nodes below, by path relative to it; raises the errors of `source_nodes`."""
    nodes: dict[str, Array | Group] = {"": root}
    if isinstance(root, Group):
        nodes.update([member async for member in root.members(max_depth=None)])
    return nodes


def check_executor(executor: object) -> None:
    """Check that an `executor` argument has the method `submit`.

    Raises:
        TypeError: it has none.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be a concurrent.futures.Executor or None, not {type(executor).__name__}")
