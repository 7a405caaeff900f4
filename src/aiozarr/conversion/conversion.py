"""`convert` and `plan_conversion`: arrays and trees in another format, layout, compression or data type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from aiozarr.common.checks import Checks
from aiozarr.common.formatting import argument
from aiozarr.conversion.conversion_journal import ConversionReport
from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_planning import PassPlanner, make_plan
from aiozarr.conversion.conversion_run import ConversionRun
from aiozarr.conversion.options import ChunksOption, ConversionOptions, RegionLike, ShardsOption
from aiozarr.engine import (
    Engine,
    ProgressLike,
    Target,
    bind_callback,
    close_own_store,
    opened_store,
    run,
    shown_progress,
)
from aiozarr.hierarchy import Array, Group
from aiozarr.hierarchy.internal import CASTINGS, Casting, CodecsLike, DataTypeLike, check_format, open_node
from aiozarr.schedule.events import current_recorder
from aiozarr.schedule.operations import name_operation, observed
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.stores.blocking import in_thread
from aiozarr.transfer import OnError
from aiozarr.transfer.copy_rules import check_disjoint

Targets: TypeAlias = tuple[tuple[Target, Mapping[str, Any] | None], ...]


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

    What no argument changes stays as it is: the format of each node, chunks, shards, codecs, the order of elements,
    chunk keys, attributes, dimension names, fill values and consolidated metadata. The work is cut into tasks: regions
    made of whole stored objects of the destination. Each object is written once and whole, by one task.
    Metadata documents are written last, so a conversion that is interrupted never looks complete.

    If reading regions of the destination would read the source more than `max_amplification` times, the conversion
    goes through intermediate arrays, by the algorithm of the package rechunker. `plan_conversion` shows the stages.

    Args:
        source: a URL, a local path, or a `Store`: an array, or a group with everything below it.
        destination: the location of the result; likewise. It must be empty unless `overwrite` or `resume` is true.
        zarr_format: the format of the result: 3, 2 or 1. None: that of each node of the source.
        chunks: chunks of the result in a form of `create_array`, or lengths by dimension name such as `{"time": -1}`,
            in which the other dimensions keep theirs. None: those of the source.
        shards: shards of the result; likewise. False: none. None: those of the source, which must be multiples of the
            chunks. Formats 1 and 2 have no shards: the chunks inside become the stored objects.
        codecs: codecs of the result, in a form of `create_array`. None: those of the source where the format of the
            result has them, else the defaults. For formats 2 and 1: one compressor, after filters.
        dtype: the type of the result's elements; None: that of the source.
        casting: the rule of the cast, as in `View.write`: "checked" raises for the first value out of range.
            The fill value is checked before anything is stored, the values of each region before it is written.
        region: slices of the source, as in `source[region]`: only these elements become the result. Arrays only.
        executor: where tasks run: any `concurrent.futures.Executor`, such as a `ProcessPoolExecutor` or
            `distributed.Client.get_executor()`. None: in this process. Other processes must reach both stores.
        max_memory: bytes of chunks and values that one process holds at most. None: `Settings.max_bytes_in_flight`.
        max_amplification: the largest ratio of bytes read to bytes of the source without intermediate arrays.
        temporary: the location of intermediate arrays, which are erased at the end. None: below the destination.
        overwrite: first erase everything stored at the destination.
        resume: continue an interrupted conversion with equal arguments: tasks that were done are skipped. Without one,
            it begins.
        on_error: "raise" stops at the first task that fails; "continue" runs the others, and the report names it.
            The documents of an array with a failed task are not written.
        progress: called with `Progress`: tasks and their bytes. True draws a bar, with the extra `cli`.
        source_options: options of the source, for a URL, as fsspec's users pass them.
        destination_options: options of the destination, for a URL.
        settings: limits and policies.

    Raises:
        NodeNotFoundError: there is no node at `source`.
        NodeExistsError: something is stored at `destination`. The message says what `overwrite=True` would delete.
        CopyError: an interrupted conversion with other arguments is stored there, or the executor has lost its workers.
        TypeError, ValueError: an argument has a wrong type or value; a value would lose its fraction by the cast; the
            source overlaps with the destination.
        OverflowError: a value or the fill value is out of the range of `dtype`.
        InvalidMetadataError, UnsupportedMetadataError: the format of the result lacks a data type or a codec.
        LimitError: one stored object of the result needs more than `max_memory`.
        StoreError, CodecError: as `View.read` and `View.write`. `resume=True` then continues where this ended.
    """
    if on_error not in ("raise", "continue"):
        raise ValueError(f"on_error is 'raise' or 'continue', not {on_error!r}")
    check_executor(executor)
    options = ConversionOptions(zarr_format, chunks, shards, codecs, dtype, casting)
    targets: Targets = ((source, source_options), (destination, destination_options))
    targets += () if temporary is None else ((temporary, None),)
    settings = settings_or_default(settings)
    request = _Request(options, region, memory_limit(settings, max_memory), max_amplification, settings)
    report = current_recorder()

    async def work(engine: Engine) -> ConversionReport:
        async with AsyncExitStack() as stack:
            stores = await open_stores(stack, targets, settings, closes=True)
            name_operation(stores[1].url)
            plan = await request.plan(stores)
            execution = ConversionRun(
                engine, plan._work, settings=settings, report=report, progress=callback, on_error=on_error
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
    max_memory: int | None = None,
    max_amplification: float = 3.0,
    temporary: Target | None = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> ConversionPlan:
    """Return the plan of a conversion: stages, tasks, bytes, requests, amplification and memory.

    Reads metadata of the source only. `print` shows the plan as a table, and notebooks do. Arguments and errors are
    those of `convert`.
    """
    options = ConversionOptions(zarr_format, chunks, shards, codecs, dtype, casting)
    targets: Targets = ((source, source_options), (destination, destination_options))
    targets += () if temporary is None else ((temporary, None),)
    settings = settings_or_default(settings)
    request = _Request(options, region, memory_limit(settings, max_memory), max_amplification, settings)

    async def work(_: Engine) -> ConversionPlan:
        async with AsyncExitStack() as stack:
            # They stay open: the tasks of the plan have them.
            stores = await open_stores(stack, targets, settings, closes=False)
            return await request.plan(stores)

    return await run(work, timeout=settings.timeout)


@dataclass(frozen=True)
class _Request:
    """The arguments that `convert` and `plan_conversion` share.

    Attributes:
        options: what is to be changed.
        region: slices of the source.
        max_memory: bytes that one process holds at most.
        max_amplification: as in `convert`.
        settings: limits and policies.
    """

    options: ConversionOptions
    region: RegionLike
    max_memory: int
    max_amplification: float
    settings: Settings

    def __post_init__(self) -> None:
        if self.options.zarr_format is not None:
            check_format(self.options.zarr_format)
        if self.options.casting not in get_args(Casting):
            raise ValueError(f"casting is {CASTINGS}, not {self.options.casting!r}")
        if not self.max_amplification >= 1:
            raise ValueError(f"{argument('max_amplification')} is at least 1, not {self.max_amplification!r}")

    async def plan(self, stores: Sequence[Store]) -> ConversionPlan:
        """Return the plan for the opened targets, from the metadata of the source."""
        source, destination, temporary = stores[0], stores[1], stores[-1]
        # In a thread: resolving symbolic links may wait for a disk.
        await in_thread(lambda: check_disjoint(source, destination))
        nodes = await source_nodes(source, self.settings)
        planner = PassPlanner(destination, temporary, self.max_memory, self.max_amplification, self.settings)
        return make_plan(nodes, planner, self.options, self.region)


def memory_limit(settings: Settings, max_memory: int | None) -> int:
    """Return the bytes that one process holds at most.

    Raises:
        TypeError, ValueError: `max_memory` is not a positive number of bytes.
    """
    if max_memory is None:
        return settings.max_bytes_in_flight
    return Checks().integer(max_memory, argument("max_memory"), 1)


async def open_stores(
    stack: AsyncExitStack,
    targets: Targets,
    settings: Settings,
    *,
    closes: bool,
) -> list[Store]:
    """Return the stores of targets with their options. With `closes`, the stack closes those that were made here.

    Raises:
        TypeError, ValueError, UnknownSchemeError: as `open`.
    """
    stores: list[Store] = []
    for target, options in targets:
        store, is_made_here = await stack.enter_async_context(opened_store(target, options, settings))
        stores.append(store)
        if is_made_here and closes:
            stack.push_async_callback(close_own_store, store)
    return stores


async def source_nodes(store: Store, settings: Settings, zarr_format: int | None = None) -> dict[str, Array | Group]:
    """Return the node at the root of a store, and all nodes below, by path.

    Raises:
        NodeNotFoundError: there is no node.
        UnsupportedOperationError: the store cannot list, and the group is not consolidated.
        MetadataError: a document cannot be read.
    """
    return await nodes_from(await open_node(store, zarr_format=zarr_format, settings=settings))


async def nodes_from(root: Array | Group) -> dict[str, Array | Group]:
    """Return a node, and all nodes below, by path relative to it; errors are those of `source_nodes`."""
    nodes: dict[str, Array | Group] = {"": root}
    if isinstance(root, Group):
        nodes.update([member async for member in root.members(max_depth=None)])
    return nodes


def check_executor(executor: object) -> None:
    """Check that an `executor` argument has the method `submit`.

    Raises:
        TypeError: it has not.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor is a concurrent.futures.Executor or None, not {type(executor).__name__}")
