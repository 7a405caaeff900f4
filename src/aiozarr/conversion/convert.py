"""`convert` and `plan_conversion`: arrays and trees in another format, layout, compression or data type."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_report import ConversionReport
from aiozarr.conversion.options import ChunksOption, RegionLike, ShardsOption
from aiozarr.engine.open_store import Target
from aiozarr.engine.progress_bar import ProgressLike
from aiozarr.hierarchy.casting.numeric import Casting
from aiozarr.hierarchy.new_metadata.codec_chain import CodecsLike
from aiozarr.hierarchy.new_metadata.v3 import DataTypeLike
from aiozarr.settings import Settings
from aiozarr.transfer import OnError


async def convert(
    source: Target,
    destination: Target,
    *,
    zarr_format: int = 3,
    chunks: ChunksOption = None,
    shards: ShardsOption = None,
    codecs: CodecsLike | None = None,
    dtype: DataTypeLike | None = None,
    casting: Casting = "exact",
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

    Attributes, dimension names, fill values and consolidated metadata are converted too. The work is cut into tasks:
    regions made of whole stored objects of the destination. Each object is written once and whole, by one task.
    Metadata documents are written last, so a conversion that is interrupted never looks complete.

    If reading regions of the destination would read the source more than `max_amplification` times, the conversion
    goes through intermediate arrays, by the algorithm of the package rechunker. `plan_conversion` shows the stages.

    Args:
        source: a URL, a local path, or a `Store`: an array, or a group with everything below it.
        destination: the location of the result; likewise. It must be empty unless `overwrite` or `resume` is true.
        zarr_format: the format of the result: 3, 2 or 1.
        chunks: chunks of the result in a form of `create_array`, or lengths by dimension name such as `{"time": -1}`,
            in which the other dimensions keep theirs. None: those of the source.
        shards: shards of the result; likewise. False: none. None: those of the source if `chunks` is None, else none.
        codecs: codecs of the result, in a form of `create_array`. None: those of the source where the format of the
            result has them, else the defaults. For formats 2 and 1: one compressor, after filters.
        dtype: the type of the result's elements; None: that of the source.
        casting: the rule of the cast, as in `View.write`: "exact" raises for the first value that would change.
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
        TypeError, ValueError: an argument has a wrong type or value; a value would change by the cast; the source
            overlaps with the destination.
        InvalidMetadataError, UnsupportedMetadataError: the format of the result lacks a data type or a codec.
        LimitError: one stored object of the result needs more than `max_memory`.
        StoreError, CodecError: as `View.read` and `View.write`. `resume=True` then continues where this ended.
    """
    raise NotImplementedError


async def plan_conversion(
    source: Target,
    destination: Target,
    *,
    zarr_format: int = 3,
    chunks: ChunksOption = None,
    shards: ShardsOption = None,
    codecs: CodecsLike | None = None,
    dtype: DataTypeLike | None = None,
    casting: Casting = "exact",
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
    raise NotImplementedError
