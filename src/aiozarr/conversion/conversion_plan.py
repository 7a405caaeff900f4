"""The plan of a conversion: arrays, passes and tasks, without I/O. It prints as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from typing import Any
from uuid import uuid4

from aiozarr.conversion.conversion_task import ArrayLocation, ConversionTask, changed_settings
from aiozarr.conversion.options import ConversionOptions
from aiozarr.conversion.regions import RegionGrid
from aiozarr.metadata import ArrayMetadata, GroupMetadata, render_node
from aiozarr.settings import Settings

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


def _without_consolidated(metadata: ArrayMetadata | GroupMetadata) -> ArrayMetadata | GroupMetadata:
    return metadata if isinstance(metadata, ArrayMetadata) else replace(metadata, consolidated=None)
