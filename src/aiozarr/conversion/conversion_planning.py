"""Plans a conversion, with or without intermediate arrays, from the metadata of its source, without I/O.

The chunk shapes of intermediate arrays follow the published algorithm of the package rechunker. Reads are
consolidated to the largest multiple of source chunks that fits into memory, and writes to the largest multiple of
chunks of the result. A single intermediate array has the elementwise minimum of both; several have minima of geometric
means between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

from aiozarr.common.formatting import argument
from aiozarr.conversion.conversion_journal import FOLDER
from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_task import ArrayLocation, ArrayPass, ConversionStage
from aiozarr.conversion.options import ConversionOptions, resolve_region, result_metadata
from aiozarr.conversion.regions import Bounds, ChunkAxis, RegionGrid, choose_regions
from aiozarr.errors import LimitError, MetadataError
from aiozarr.hierarchy import Array, Group
from aiozarr.hierarchy.internal import HandleOptions, new_array_metadata, new_group_metadata
from aiozarr.metadata.formats import consolidate
from aiozarr.metadata.other_format import attributes_in_format, attributes_without_names
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings
from aiozarr.stores import Store

MAX_STAGES = 6
REQUEST_COST_BYTES = 256 << 10
"""The cost of a request, as the bytes that could be transferred in its time; it determines the number of stages."""


def choose_stages(
    source: Sequence[ChunkAxis],
    destination: Sequence[ChunkAxis],
    item_size: int,
    max_bytes: int,
    max_amplification: float,
) -> list[RegionGrid]:
    """Return the regions of each pass of a conversion: one pass, or several with intermediate arrays between them.

    Args:
        source: the units in which the source is read.
        destination: the stored objects of the result.
        item_size: bytes of an element.
        max_bytes: bytes of a region at most.
        max_amplification: the amplification that one pass may have. More passes are chosen only above it, and only if
            they transfer less.
    """
    direct = [choose_regions(destination, source, item_size, max_bytes)]
    if not direct[0].count or direct[0].amplification <= max_amplification:
        return direct
    shape = [axis.length for axis in destination]
    candidates = [direct]
    for count in range(2, MAX_STAGES + 1):
        chunks = intermediate_chunks(
            shape, [axis.chunk for axis in source], [axis.chunk for axis in destination], item_size, max_bytes, count
        )
        grids: list[RegionGrid] = []
        units = list(source)
        for lengths in chunks:
            axes = [ChunkAxis.of(length, chunk) for length, chunk in zip(shape, lengths, strict=True)]
            grids.append(choose_regions(axes, units, item_size, max_bytes))
            units = axes
        grids.append(choose_regions(destination, units, item_size, max_bytes))
        candidates.append(grids)
    return min(candidates, key=lambda grids: _cost(grids, item_size))


def intermediate_chunks(
    shape: Sequence[int], source: Sequence[int], destination: Sequence[int], item_size: int, max_bytes: int, stages: int
) -> list[tuple[int, ...]]:
    """Return the chunk shapes of the `stages - 1` intermediate arrays."""
    limits = [max(chunk, wanted) for chunk, wanted in zip(source, destination, strict=True)]
    read = consolidated(shape, source, item_size, max_bytes, limits)
    written = consolidated(shape, destination, item_size, max_bytes, shape)
    # Geometric means between the shapes that are read and written; each array has the minimum of two neighbours.
    steps = [
        tuple(
            [
                int(one ** (1 - i / (stages - 1)) * other ** (i / (stages - 1)))
                for one, other in zip(read, written, strict=True)
            ]
        )
        for i in range(1, stages - 1)
    ]
    passes = [read, *steps, written]
    return [
        tuple([max(1, min(one, other)) for one, other in zip(before, after, strict=True)])
        for before, after in itertools.pairwise(passes)
    ]


def consolidated(
    shape: Sequence[int], chunks: Sequence[int], item_size: int, max_bytes: int, limits: Sequence[int]
) -> tuple[int, ...]:
    """Return the largest multiples of `chunks` of at most `max_bytes`, the last dimensions first.

    Args:
        shape: lengths of the dimensions, which end the growth.
        chunks: the chunks to multiply.
        item_size: bytes of an element.
        max_bytes: bytes of the result at most, if one chunk is not larger.
        limits: lengths at which a dimension is long enough.
    """
    found = [max(1, min(chunk, length)) for chunk, length in zip(chunks, shape, strict=True)]
    for axis in reversed(range(len(shape))):
        room = max_bytes // (prod(found) * item_size)
        wanted = -(-min(shape[axis], max(limits[axis], found[axis])) // found[axis])
        if room > 1 and wanted > 1:
            found[axis] = min(found[axis] * min(room, wanted), shape[axis])
    return tuple(found)


def _cost(grids: Sequence[RegionGrid], item_size: int) -> int:
    """Return the bytes that all passes transfer, with their requests as bytes."""
    size = prod([axis.chunks.length for axis in grids[-1].axes]) * item_size
    moved = sum([grid.elements_read * item_size + size for grid in grids])
    return moved + REQUEST_COST_BYTES * sum([grid.units_read + grid.objects_written for grid in grids])


MIN_VARIABLE_BYTES = 64
"""Bytes that are counted for an element of variable length, whose memory is not known beforehand."""
MIN_BYTES_IN_FLIGHT = 1 << 20
FAST_COMPRESSION = {"name": "blosc", "cname": "lz4", "clevel": 1, "shuffle": "bitshuffle"}
"""The compression of intermediate arrays, as fast as writing the bytes that it saves (numbers in design note 012)."""
MAX_COMPRESSED_BYTES = 1 << 30
"""Blosc compresses less than 2 GiB at once. Larger objects of intermediate arrays are not compressed."""


@dataclass(frozen=True)
class ConversionPlanner:
    """Makes the plan of a conversion, within the memory of one process.

    Attributes:
        destination: the store whose root becomes the result.
        temporary: the store of intermediate arrays.
        options: the requested changes, and their limits.
        settings: limits and policies.
    """

    destination: Store
    temporary: Store
    options: ConversionOptions
    settings: Settings

    @property
    def max_memory(self) -> int:
        """Bytes that one process holds at most."""
        return self.options.max_memory or self.settings.max_bytes_in_flight

    @property
    def task_settings(self) -> Settings:
        """The settings of tasks. A quarter of the memory is for requests in flight."""
        in_flight = min(self.settings.max_bytes_in_flight, max(MIN_BYTES_IN_FLIGHT, self.max_memory // 4))
        return replace(self.settings, max_bytes_in_flight=in_flight, on_event=None)

    @property
    def task_bytes(self) -> int:
        """Bytes of the values of all tasks of one process."""
        return max(1, self.max_memory * 3 // 4)

    def plan(self, nodes: Mapping[str, Array | Group], selected: Mapping[str, Bounds] | None = None) -> ConversionPlan:
        """Return the plan for these nodes, by path relative to the source; the root's path is "".

        Args:
            nodes: the nodes of the source.
            selected: the selected part of each array; None: the `region` of the options.

        Raises:
            TypeError, ValueError, MetadataError: an option does not fit.
            LimitError: a stored object needs more than `max_memory`.
        """
        options, region = self.options, self.options.region
        if region is not None and not isinstance(nodes[""], Array):
            raise ValueError(
                "region selects from a single array, but the source is a group; use select, or convert one array"
            )
        options.check_names([node for node in nodes.values() if isinstance(node, Array)])
        result: dict[str, ArrayMetadata | GroupMetadata] = {}
        notes: dict[str, str] = {}
        passes: list[ArrayPass] = []
        for path, node in nodes.items():
            zarr_format = options.zarr_format or node.zarr_format
            if has_renamed_attributes(node, zarr_format):
                notes[path] = ATTRIBUTES_NOTE
            if isinstance(node, Group):
                attributes = attributes_in_format(node.metadata.attributes, zarr_format)
                kept = replace(node.metadata, attributes=attributes, consolidated=None)
                is_kept = zarr_format == node.zarr_format
                result[path] = kept if is_kept else new_group_metadata(zarr_format, attributes)
            else:
                try:
                    bounds = selected[path] if selected else resolve_region(region, node.shape)
                    metadata, note = result_metadata(node, [stop - start for start, stop in bounds], options)
                except (TypeError, ValueError) as error:
                    if path:
                        by_name = f"; {argument('chunks', {'time': 1})} names dimensions"
                        names = by_name if "dimensions, the shape" in str(error) else ""
                        error.add_note(f"converting the array {path!r}{names}")
                    raise
                except MetadataError as error:
                    error.node = error.node or node.url
                    raise
                result[path] = metadata
                if note:
                    notes[path] = f"{note}; {notes[path]}" if path in notes else note
                passes += self._array_passes(len(result), path, node, metadata, bounds)
        root, top = nodes[""], result[""]
        if isinstance(root, Group) and isinstance(top, GroupMetadata) and root.metadata.consolidated is not None:
            copies = consolidate(top.zarr_format, {path: metadata for path, metadata in result.items() if path})
            result[""] = replace(top, consolidated=copies)
        # All first passes, then all second ones, because passes of different arrays need not wait for each other.
        passes.sort(key=lambda each: each.stage.number)
        arrays = sum([isinstance(node, Array) for node in nodes.values()])
        return ConversionPlan(
            source=root.url,
            destination=self.destination.url,
            arrays=arrays,
            groups=len(nodes) - arrays,
            stages=tuple([each.stage for each in passes]),
            max_memory=self.max_memory,
            notes=notes,
            _store=self.destination,
            _temporary=self.temporary,
            _passes=tuple(passes),
            _nodes=result,
            _casting=options.casting,
            _settings=self.task_settings,
        )

    def _array_passes(
        self, number: int, path: str, node: Array, metadata: ArrayMetadata, bounds: Bounds
    ) -> list[ArrayPass]:
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
        # Python objects have no intermediate arrays, because only the codecs of their own array can encode them.
        most = inf if node.dtype.hasobject else self.options.max_amplification
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
                f"one stored object of {self.destination.url_of(path)}, of shape {tuple(objects)}, needs {memory} "
                f"bytes of memory, but {argument('max_memory', self.max_memory)} allows {self.task_bytes}; use "
                "smaller chunks or shards, or allow more memory",
                limit="max_memory",
                value=memory,
                allowed=self.task_bytes,
            )


ATTRIBUTES_NOTE = "NaN and infinities in attributes become strings, because format 3 cannot represent them"


def has_renamed_attributes(node: Array | Group, zarr_format: int) -> bool:
    """Return whether attributes of the node have numbers that the format stores as strings."""
    if isinstance(node, Group):
        return node.metadata.attributes != attributes_in_format(node.metadata.attributes, zarr_format)
    own = attributes_without_names(node.metadata, node.zarr_format)
    return own != attributes_without_names(node.metadata, zarr_format)


def _intermediate(node: Array, shape: Sequence[int], chunks: Sequence[int]) -> ArrayMetadata:
    """Return the metadata of an intermediate array, with fast compression because it is written and read once."""
    fill = node.metadata.fill_value[()]
    options: dict[str, Any] = {"shape": tuple(shape), "dtype": node.metadata.data_type, "chunks": tuple(chunks)}
    codecs = [FAST_COMPRESSION] if prod(chunks) * _element_bytes(node.metadata) <= MAX_COMPRESSED_BYTES else []
    return new_array_metadata(3, {**options, "codecs": codecs, "fill_value": fill})


def _element_bytes(metadata: ArrayMetadata) -> int:
    size = metadata.dtype.itemsize
    return max(size, MIN_VARIABLE_BYTES) if metadata.data_type.is_variable else size
