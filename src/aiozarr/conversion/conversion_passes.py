"""The passes of a conversion with all that executes them: arrays, locations, tasks. Without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

from aiozarr.conversion.conversion_task import ArrayLocation, ConversionTask, changed_settings
from aiozarr.conversion.regions import RegionGrid
from aiozarr.hierarchy.internal import Casting
from aiozarr.metadata.formats import render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings
from aiozarr.stores import Store


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
class ConversionWork:
    """The passes of a conversion, and the documents of its result. It can be pickled if the stores can.

    Attributes:
        source: URL of the source.
        destination: the store whose root becomes the result.
        temporary: the store of intermediate arrays.
        passes: in the order in which they run.
        nodes: the nodes of the result by path; the root's path is "".
        zarr_format: the format of the result's root.
        casting: the rule of casts, which applies to the last pass of an array.
        max_memory: bytes that one process holds at most.
        notes: remarks, by the path of the array they are about.
        settings: the settings of tasks.
        token: identifies the execution.
    """

    source: str
    destination: Store
    temporary: Store
    passes: tuple[ArrayPass, ...]
    nodes: Mapping[str, ArrayMetadata | GroupMetadata]
    zarr_format: int
    casting: Casting
    max_memory: int
    notes: Mapping[str, str]
    settings: Settings
    token: str = field(default_factory=lambda: uuid4().hex, compare=False)

    def tasks(self, number: int) -> Iterator[ConversionTask]:
        """Iterate over the tasks of one pass."""
        each = self.passes[number]
        settings = changed_settings(self.settings)
        is_last = each.stage.number == each.stage.stages - 1
        casting: Casting = self.casting if is_last else "checked"
        for task, region in enumerate(each.grid):
            yield ConversionTask(
                task, each.source, each.destination, region, each.offset, casting, each.item_size, settings, self.token
            )

    def fingerprint(self) -> str:
        """Return a text that is equal for plans of equal tasks, sources and results."""
        facts: list[Any] = [self.source, self.destination.url, self.casting]
        for path, metadata in self.nodes.items():
            facts += [path, *[data.decode() for data in render_node(_without_consolidated(metadata)).values()]]
        for each in self.passes:
            region, source = each.stage.region, repr(each.grid.source)
            facts += [each.stage.array, each.stage.number, region, source, each.offset, each.source.store.url]
            # Of intermediate arrays too: a later version may encode them in another way.
            facts += [data.decode() for data in render_node(each.documents).values()]
        return sha256(json.dumps(facts).encode()).hexdigest()


def _without_consolidated(metadata: ArrayMetadata | GroupMetadata) -> ArrayMetadata | GroupMetadata:
    return metadata if isinstance(metadata, ArrayMetadata) else replace(metadata, consolidated=None)
