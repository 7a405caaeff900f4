"""Makes the plan of a conversion from the metadata of its source, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

from aiozarr.common.formatting import argument
from aiozarr.conversion.conversion_journal import FOLDER
from aiozarr.conversion.conversion_passes import ArrayPass, ConversionStage, ConversionWork
from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_stages import choose_stages
from aiozarr.conversion.conversion_task import ArrayLocation
from aiozarr.conversion.options import ConversionOptions, RegionLike, resolve_region, result_metadata
from aiozarr.conversion.regions import Bounds, ChunkAxis
from aiozarr.errors import LimitError
from aiozarr.hierarchy import Array, Group
from aiozarr.hierarchy.internal import Casting, HandleOptions, new_array_metadata, new_group_metadata
from aiozarr.metadata.formats import consolidate
from aiozarr.metadata.other_format import attributes_in_format, attributes_without_names
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings
from aiozarr.stores import Store

MIN_VARIABLE_BYTES = 64
"""Bytes that are counted for an element of variable length, whose memory is not known beforehand."""
MIN_BYTES_IN_FLIGHT = 1 << 20
FAST_COMPRESSION = {"name": "blosc", "cname": "lz4", "clevel": 1, "shuffle": "bitshuffle"}
"""Of intermediate arrays: as fast as writing the bytes that it saves. Numbers are in design note 012."""
MAX_COMPRESSED_BYTES = 1 << 30
"""Blosc takes less than 2 GiB at once. Larger objects of intermediate arrays are not compressed."""


@dataclass(frozen=True)
class PassPlanner:
    """Cuts conversions of arrays into passes, within the memory of one process.

    Attributes:
        destination: the store whose root becomes the result.
        temporary: the store of intermediate arrays.
        max_memory: bytes that one process holds at most.
        max_amplification: as in `convert`.
        settings: limits and policies.
    """

    destination: Store
    temporary: Store
    max_memory: int
    max_amplification: float
    settings: Settings

    @property
    def task_settings(self) -> Settings:
        """The settings of tasks. A quarter of the memory is for requests in flight."""
        in_flight = min(self.settings.max_bytes_in_flight, max(MIN_BYTES_IN_FLIGHT, self.max_memory // 4))
        return replace(self.settings, max_bytes_in_flight=in_flight, on_event=None)

    @property
    def task_bytes(self) -> int:
        """Bytes of the values of all tasks of one process."""
        return max(1, self.max_memory * 3 // 4)

    def passes(self, number: int, path: str, node: Array, metadata: ArrayMetadata, bounds: Bounds) -> list[ArrayPass]:
        """Return the passes of one array.

        Args:
            number: number of the array in the conversion.
            path: its path in the result.
            node: the array of the source.
            metadata: the metadata of the result.
            bounds: the region of the source that becomes the result.

        Raises:
            LimitError: one stored object needs more than the memory.
        """
        shape = metadata.shape
        result = Array(self.destination, path, metadata, HandleOptions(self.settings, "r+", checks_document=False))
        item_size = _element_bytes(node.metadata)
        held = item_size if metadata.dtype == node.dtype else item_size + _element_bytes(metadata)
        offsets = tuple([start for start, _ in bounds])
        source_axes = [ChunkAxis.of(*each) for each in zip(shape, node.chunks, offsets, node.shape, strict=True)]
        result_axes = [ChunkAxis.of(*each) for each in zip(shape, result.shards or result.chunks, strict=True)]
        # Two tasks overlap: one reads while the other one writes.
        # Python objects have no intermediate arrays: their codecs are those of their own array.
        most = inf if node.dtype.hasobject else self.max_amplification
        grids = choose_stages(source_axes, result_axes, held, self.task_bytes // 2, most)
        passes: list[ArrayPass] = []
        source = ArrayLocation(node.store, node.path, node.path, node.zarr_format)
        for stage, grid in enumerate(grids):
            objects = tuple([axis.chunks.chunk for axis in grid.axes])
            self._check_memory(path, objects, grid.largest * held)
            if stage == len(grids) - 1:
                documents = metadata
                location = ArrayLocation(self.destination, path, f"{FOLDER}/{number}", metadata.zarr_format)
            else:
                documents = _intermediate(node, shape, objects)
                staged = f"{FOLDER}/{number}-{stage}"
                location = ArrayLocation(self.temporary, staged, staged, documents.zarr_format)
            shown = ConversionStage(
                array=path,
                number=stage,
                stages=len(grids),
                shape=shape,
                objects=objects,
                region=tuple([axis.longest for axis in grid.axes]),
                tasks=grid.count,
                nbytes=prod(shape) * item_size,
                bytes_read=grid.elements_read * item_size if grid.count else 0,
                requests=grid.units_read + grid.objects_written if grid.count else 0,
                amplification=grid.amplification,
                memory=grid.largest * held,
            )
            offset = offsets if stage == 0 else (0,) * len(shape)
            passes.append(ArrayPass(shown, grid, source, location, documents, offset, item_size))
            source = location
        return passes

    def _check_memory(self, path: str, objects: Sequence[int], memory: int) -> None:
        if memory > self.task_bytes:
            raise LimitError(
                f"one stored object of {self.destination.url_of(path)}, of shape {tuple(objects)}, has {memory} bytes; "
                f"{argument('max_memory', self.max_memory)} allows {self.task_bytes}; give smaller chunks or shards, "
                "or more memory",
                limit="max_memory",
                value=memory,
                allowed=self.task_bytes,
            )


def make_plan(
    nodes: Mapping[str, Array | Group], planner: PassPlanner, options: ConversionOptions, region: RegionLike
) -> ConversionPlan:
    """Return the plan for these nodes, by path relative to the source; the root's path is "".

    Raises:
        TypeError, ValueError, MetadataError: an option does not fit.
        LimitError: a stored object needs more than `max_memory`.
    """
    if region is not None and not isinstance(nodes[""], Array):
        raise ValueError("region goes with an array; give the path of one array of the group as source and destination")
    options.check_names([node for node in nodes.values() if isinstance(node, Array)])
    result: dict[str, ArrayMetadata | GroupMetadata] = {}
    notes: dict[str, str] = {}
    passes: list[ArrayPass] = []
    for path, node in nodes.items():
        zarr_format = options.zarr_format or node.zarr_format
        if isinstance(node, Group):
            attributes = attributes_in_format(node.metadata.attributes, zarr_format)
            kept = replace(node.metadata, attributes=attributes, consolidated=None)
            is_kept = zarr_format == node.zarr_format
            result[path] = kept if is_kept else new_group_metadata(zarr_format, attributes)
        else:
            try:
                bounds = resolve_region(region, node.shape)
                metadata, note = result_metadata(node, [stop - start for start, stop in bounds], options)
            except (TypeError, ValueError) as error:
                if path:
                    by_name = f"; {argument('chunks', {'time': 1})} names dimensions"
                    names = by_name if "dimensions, the shape" in str(error) else ""
                    error.add_note(f"converting the array {path!r}{names}")
                raise
            result[path] = metadata
            if note:
                notes[path] = note
            passes += planner.passes(len(result), path, node, metadata, bounds)
        if has_renamed_attributes(node, zarr_format):
            notes[path] = "; ".join([*([notes[path]] if path in notes else []), ATTRIBUTES_NOTE])
    return plan_of(nodes, result, passes, planner, options.casting, notes)


ATTRIBUTES_NOTE = "NaN and infinities in attributes become strings, because format 3 has no such numbers"


def has_renamed_attributes(node: Array | Group, zarr_format: int) -> bool:
    """Return whether attributes of the node have numbers that the format stores as strings."""
    if isinstance(node, Group):
        return node.metadata.attributes != attributes_in_format(node.metadata.attributes, zarr_format)
    own = attributes_without_names(node.metadata, node.zarr_format)
    return own != attributes_without_names(node.metadata, zarr_format)


def plan_of(
    nodes: Mapping[str, Array | Group],
    result: dict[str, ArrayMetadata | GroupMetadata],
    passes: Sequence[ArrayPass],
    planner: PassPlanner,
    casting: Casting,
    notes: Mapping[str, str],
) -> ConversionPlan:
    """Return the plan of these passes. The root of the result has consolidated metadata if that of the source has."""
    root, top = nodes[""], result[""]
    if isinstance(root, Group) and isinstance(top, GroupMetadata) and root.metadata.consolidated is not None:
        copies = consolidate(top.zarr_format, {path: metadata for path, metadata in result.items() if path})
        result[""] = replace(top, consolidated=copies)
    # All first passes, then all second ones: passes of different arrays need not wait for each other.
    ordered = sorted(passes, key=lambda each: each.stage.number)
    arrays = sum([isinstance(node, Array) for node in nodes.values()])
    return ConversionPlan(
        source=root.url,
        destination=planner.destination.url,
        arrays=arrays,
        groups=len(nodes) - arrays,
        stages=tuple([each.stage for each in ordered]),
        max_memory=planner.max_memory,
        notes=notes,
        _work=ConversionWork(
            source=root.url,
            destination=planner.destination,
            temporary=planner.temporary,
            passes=tuple(ordered),
            nodes=result,
            zarr_format=top.zarr_format,
            casting=casting,
            max_memory=planner.max_memory,
            notes=notes,
            settings=planner.task_settings,
        ),
    )


def _intermediate(node: Array, shape: Sequence[int], chunks: Sequence[int]) -> ArrayMetadata:
    """Return the metadata of an intermediate array, which is written and read once: with a fast compression."""
    fill = node.metadata.fill_value[()]
    options: dict[str, Any] = {"shape": tuple(shape), "dtype": node.metadata.data_type, "chunks": tuple(chunks)}
    codecs = [FAST_COMPRESSION] if prod(chunks) * _element_bytes(node.metadata) <= MAX_COMPRESSED_BYTES else []
    return new_array_metadata(3, {**options, "codecs": codecs, "fill_value": fill})


def _element_bytes(metadata: ArrayMetadata) -> int:
    size = metadata.dtype.itemsize
    return max(size, MIN_VARIABLE_BYTES) if metadata.data_type.is_variable else size
