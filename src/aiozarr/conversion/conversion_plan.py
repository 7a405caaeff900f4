"""The plan of a conversion: arrays, passes and tasks, without I/O. It prints as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from math import prod
from typing import Any
from uuid import uuid4

from aiozarr.conversion.conversion_task import ArrayLocation, ConversionTask, changed_settings
from aiozarr.conversion.journal import FOLDER
from aiozarr.conversion.options import ConversionOptions, RegionLike, resolve_region, result_metadata
from aiozarr.conversion.regions import ChunkAxis, RegionGrid
from aiozarr.conversion.stages import choose_stages
from aiozarr.errors import LimitError
from aiozarr.hierarchy import Array, Group
from aiozarr.hierarchy.new_metadata.by_format import new_array_metadata, new_group_metadata
from aiozarr.metadata import ArrayMetadata, GroupMetadata, attributes_in_format, consolidate, render_node
from aiozarr.settings import Settings
from aiozarr.stores import Store

MIN_VARIABLE_BYTES = 64
"""Bytes that are counted for an element of variable length, whose memory is not known beforehand."""
MAX_SHOWN_STAGES = 40
MIB = 1 << 20


@dataclass(frozen=True)
class ConversionStage:
    """One pass over one array.

    Attributes:
        array: path of the array, relative to the destination; "" is the destination itself.
        number: 0, or more behind intermediate arrays.
        stages: number of passes of this array.
        shape: shape of the array.
        objects: shape of the largest stored object that the pass writes.
        region: shape of the largest region of a task.
        tasks: number of tasks.
        nbytes: bytes of the elements that the pass writes.
        bytes_read: bytes of the elements that it reads, with repetitions, before compression.
        requests: requests at most: chunks read, with repetitions, and objects written.
        amplification: the ratio of elements read to elements of the array.
        memory: bytes of one task's values.
    """

    array: str
    number: int
    stages: int
    shape: tuple[int, ...]
    objects: tuple[int, ...]
    region: tuple[int, ...]
    tasks: int
    nbytes: int
    bytes_read: int
    requests: int
    amplification: float
    memory: int


@dataclass(frozen=True)
class ArrayPass:
    """One pass with the locations of its arrays: what `ConversionStage` shows, and what makes tasks."""

    stage: ConversionStage
    grid: RegionGrid
    source: ArrayLocation
    destination: ArrayLocation
    documents: ArrayMetadata
    offset: tuple[int, ...]
    item_size: int


@dataclass(frozen=True)
class ConversionPlan:
    """The stages of a conversion; `print` shows them as a table.

    Attributes:
        source: URL of the source.
        destination: URL of the destination.
        arrays: number of arrays.
        groups: number of groups.
        stages: the passes, in the order in which they run.
        max_memory: bytes that one process holds at most.
        notes: remarks, by the path of the array they are about.
    """

    source: str
    destination: str
    arrays: int
    groups: int
    stages: tuple[ConversionStage, ...]
    max_memory: int
    notes: Mapping[str, str] = field(default_factory=dict)
    _passes: tuple[ArrayPass, ...] = field(default=(), repr=False)
    _nodes: Mapping[str, ArrayMetadata | GroupMetadata] = field(default_factory=dict, repr=False)
    _options: ConversionOptions = field(default_factory=ConversionOptions, repr=False)
    _settings: Settings = field(default_factory=Settings, repr=False)
    _token: str = field(default_factory=lambda: uuid4().hex, repr=False, compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that all passes write."""
        return sum([stage.nbytes for stage in self.stages])

    @property
    def bytes_read(self) -> int:
        """Bytes of the elements that all passes read, with repetitions."""
        return sum([stage.bytes_read for stage in self.stages])

    @property
    def requests(self) -> int:
        """Requests of all passes at most."""
        return sum([stage.requests for stage in self.stages])

    def tasks(self, stage: int | None = None) -> Iterator[ConversionTask]:
        """Iterate over the tasks of one of `stages`, or of all in order. A stage begins when the last has ended."""
        for number in range(len(self._passes)) if stage is None else (stage,):
            each = self._passes[number]
            settings = changed_settings(self._settings)
            is_last = each.stage.number == each.stage.stages - 1
            casting = self._options.casting if is_last else "exact"
            for task, region in enumerate(each.grid):
                yield ConversionTask(
                    task,
                    each.source,
                    each.destination,
                    region,
                    each.offset,
                    casting,
                    each.item_size,
                    settings,
                    self._token,
                )

    def __str__(self) -> str:
        counts = [
            f"{self.arrays:,} arrays, {self.groups:,} groups, {sum([stage.tasks for stage in self.stages]):,} tasks",
            f"reads {_mib(self.bytes_read)}, writes {_mib(self.nbytes)}",
            f"at most {self.requests:,} requests and {_mib(self.max_memory)} in memory",
        ]
        head = [f"{self.source} -> {self.destination}", "; ".join(counts)]
        lines = [[*_COLUMNS], *[_row(stage) for stage in self.stages[:MAX_SHOWN_STAGES]]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join([f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)]) for line in lines]
        if len(self.stages) > MAX_SHOWN_STAGES:
            table.append(f"and {len(self.stages) - MAX_SHOWN_STAGES:,} more")
        notes = [f"{path or 'note'}: {note}" for path, note in self.notes.items()]
        return "\n".join([line.rstrip() for line in [*head, *(table if self.stages else []), *notes]])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def fingerprint(self) -> str:
        """Return a text that is equal for plans of equal tasks, sources and results."""
        facts: list[Any] = [self.source, self.destination, self._options.casting]
        for path, metadata in self._nodes.items():
            facts += [path, *[data.decode() for data in render_node(_without_consolidated(metadata)).values()]]
        for each in self._passes:
            region, source = each.stage.region, repr(each.grid.source)
            facts += [each.stage.array, each.stage.number, region, source, each.offset, each.source.store.url]
        return sha256(json.dumps(facts).encode()).hexdigest()


def make_plan(
    nodes: Mapping[str, Array | Group],
    destination: Store,
    temporary: Store,
    options: ConversionOptions,
    region: RegionLike,
    *,
    max_memory: int,
    max_amplification: float,
    settings: Settings,
) -> ConversionPlan:
    """Return the plan for these nodes, by path relative to the source.

    Args:
        nodes: the nodes of the source, the root among them.
        destination: the store whose root becomes the result.
        temporary: the store of intermediate arrays.
        options: what is to be changed.
        region: slices of the source, which is one array then.
        max_memory: bytes that one process holds at most.
        max_amplification: as in `convert`.
        settings: limits and policies of the tasks.

    Raises:
        TypeError, ValueError, MetadataError: an option does not fit.
        LimitError: a stored object needs more than `max_memory`.
    """
    root = nodes[""]
    arrays = {path: node for path, node in nodes.items() if isinstance(node, Array)}
    if region is not None and not isinstance(root, Array):
        raise ValueError("region goes with an array; give the path of one array of the group as source and destination")
    options.check_names(arrays.values())
    result: dict[str, ArrayMetadata | GroupMetadata] = {}
    notes: dict[str, str] = {}
    passes: list[ArrayPass] = []
    task_settings = replace(
        settings, max_bytes_in_flight=min(settings.max_bytes_in_flight, max(MIB, max_memory // 4)), on_event=None
    )
    for path, node in nodes.items():
        if isinstance(node, Group):
            result[path] = _result_group(node, options.zarr_format)
            continue
        try:
            bounds = resolve_region(region, node.shape)
            metadata, note = result_metadata(node, [stop - start for start, stop in bounds], options)
        except (TypeError, ValueError) as error:
            if path:
                error.add_note(f"converting the array {path!r}; chunks={{'time': 1}} names dimensions")
            raise
        result[path] = metadata
        if note:
            notes[path] = note
        passes += _passes_of(
            len(result),
            path,
            node,
            metadata,
            bounds,
            destination,
            temporary,
            max_memory,
            max_amplification,
            task_settings,
        )
    top = result[""]
    if isinstance(root, Group) and isinstance(top, GroupMetadata) and root.metadata.consolidated is not None:
        copies = consolidate(options.zarr_format, {path: metadata for path, metadata in result.items() if path})
        result[""] = replace(top, consolidated=copies)
    passes.sort(key=lambda each: each.stage.number)
    return ConversionPlan(
        source=root.url,
        destination=destination.url,
        arrays=len(arrays),
        groups=len(nodes) - len(arrays),
        stages=tuple([each.stage for each in passes]),
        max_memory=max_memory,
        notes=notes,
        _passes=tuple(passes),
        _nodes=result,
        _options=options,
        _settings=task_settings,
    )


# --- helpers -----------------------------------------------------------------------------------------------------

_COLUMNS = (
    "array",
    "stage",
    "shape",
    "objects",
    "region",
    "tasks",
    "reads",
    "writes",
    "requests",
    "read",
    "task memory",
)


def _row(stage: ConversionStage) -> list[str]:
    return [
        stage.array or ".",
        f"{stage.number + 1}/{stage.stages}",
        _shape(stage.shape),
        _shape(stage.objects),
        _shape(stage.region),
        f"{stage.tasks:,}",
        _mib(stage.bytes_read),
        _mib(stage.nbytes),
        f"{stage.requests:,}",
        f"{stage.amplification:.2f}×",
        _mib(stage.memory),
    ]


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "()"


def _mib(count: int) -> str:
    return f"{count / MIB:,.1f} MiB" if count >= MIB else f"{count:,} B"


def _result_group(group: Group, zarr_format: int) -> GroupMetadata:
    return new_group_metadata(zarr_format, attributes_in_format(group.metadata.attributes, zarr_format))


def _without_consolidated(metadata: ArrayMetadata | GroupMetadata) -> ArrayMetadata | GroupMetadata:
    return metadata if isinstance(metadata, ArrayMetadata) else replace(metadata, consolidated=None)


def _chunk_axes(
    shape: Sequence[int], chunks: Sequence[Any], offsets: Sequence[int], totals: Sequence[int]
) -> list[ChunkAxis]:
    parts = zip(shape, chunks, offsets, totals, strict=True)
    return [ChunkAxis.of(length, chunk, offset, total) for length, chunk, offset, total in parts]


def _passes_of(
    number: int,
    path: str,
    node: Array,
    metadata: ArrayMetadata,
    bounds: Sequence[tuple[int, int]],
    destination: Store,
    temporary: Store,
    max_memory: int,
    max_amplification: float,
    settings: Settings,
) -> list[ArrayPass]:
    shape = metadata.shape
    result = Array(destination, path, metadata, settings=settings, mode="r+")
    item_size = _element_bytes(node.metadata)
    held = item_size if metadata.dtype == node.dtype else item_size + _element_bytes(metadata)
    # A quarter is for requests in flight, and two tasks overlap: one reads while the other one writes.
    budget = max(1, max_memory * 3 // 4)
    offsets = [start for start, _ in bounds]
    none = [0] * len(shape)
    source_axes = _chunk_axes(shape, node.chunks, offsets, node.shape)
    result_axes = _chunk_axes(shape, result.shards or result.chunks, none, shape)
    grids = choose_stages(source_axes, result_axes, held, budget // 2, max_amplification)
    passes: list[ArrayPass] = []
    source = ArrayLocation(node.store, node.path, node.path, node.zarr_format)
    for stage, grid in enumerate(grids):
        memory = grid.largest * held
        objects = tuple([axis.chunks.chunk for axis in grid.axes])
        if memory > budget:
            raise LimitError(
                f"one stored object of {destination.url_of(path)}, of shape {objects}, has {memory} bytes; "
                f"max_memory={max_memory} allows {budget}; give smaller chunks or shards, or more memory",
                limit="max_memory",
                value=memory,
                allowed=budget,
            )
        documents = metadata
        staged = f"{FOLDER}/{number}"
        location = ArrayLocation(destination, path, staged, metadata.zarr_format)
        if stage < len(grids) - 1:
            documents = _intermediate(node, shape, objects)
            staged = f"{staged}-{stage}"
            location = ArrayLocation(temporary, staged, staged, documents.zarr_format)
        size = prod(shape) * item_size
        shown = ConversionStage(
            array=path,
            number=stage,
            stages=len(grids),
            shape=tuple(shape),
            objects=objects,
            region=tuple([axis.longest for axis in grid.axes]),
            tasks=grid.count,
            nbytes=size,
            bytes_read=grid.elements_read * item_size if grid.count else 0,
            requests=grid.units_read + grid.objects_written if grid.count else 0,
            amplification=grid.amplification,
            memory=memory,
        )
        offset = tuple(offsets if stage == 0 else none)
        passes.append(ArrayPass(shown, grid, source, location, documents, offset, item_size))
        source = location
    return passes


def _intermediate(node: Array, shape: Sequence[int], chunks: Sequence[int]) -> ArrayMetadata:
    """Return the metadata of an intermediate array, which is written and read once: without compression."""
    fill = node.metadata.fill_value[()]
    options = {"shape": tuple(shape), "dtype": node.metadata.data_type, "chunks": tuple(chunks), "codecs": []}
    return new_array_metadata(3, {**options, "fill_value": fill})


def _element_bytes(metadata: ArrayMetadata) -> int:
    size = metadata.dtype.itemsize
    return max(size, MIN_VARIABLE_BYTES) if metadata.data_type.is_variable else size
