"""A part of a hierarchy as a store. Chunks inside the part are as stored, and those at its edges are re-encoded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from typing_extensions import Buffer

from aiozarr.engine import ArrayLayout, Engine, Read, Write
from aiozarr.errors import SelectionError, StoreError, UnsupportedOperationError
from aiozarr.grid.chunk_grid import RegularGrid
from aiozarr.grid.transform import IndexTransform
from aiozarr.metadata.document import dump_document, load_document
from aiozarr.metadata.format_rules import ARRAY_KEY, CONSOLIDATED_MEMBER, META_KEY, V3_KEY, ZMETADATA_KEY, key_prefix
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.model import ByteRange, Entry, Supports, Value, Version, check_key, resolve_range
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore, Store
from aiozarr.transfer.dimension_selection import Selection, is_index, resolve_coordinates, resolve_indexes
from aiozarr.transfer.node_tree import NodeTree, load_array_above


@dataclass(frozen=True)
class SelectedArray:
    """One array of a selection.

    Attributes:
        path: its path.
        layout: the layout of the stored array.
        intervals: the selected part, one for each dimension.
        selected: the layout of the part, as an array of its own.
    """

    path: str
    layout: ArrayLayout
    intervals: tuple[slice, ...]
    selected: ArrayLayout

    def source_chunk(self, coords: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the coordinates of the stored chunk that is chunk `coords` of the part, byte for byte.

        Returns: the coordinates, or None if there is none because the part begins or ends inside a chunk.
        """
        source: list[int] = []
        lengths = self.layout.grid.largest_chunk
        for chunk, length, interval, total in zip(
            coords, lengths, self.intervals, self.layout.metadata.shape, strict=True
        ):
            if interval.start % length:
                return None
            stop = interval.start + (chunk + 1) * length
            if stop > interval.stop and interval.stop < total:
                return None
            source.append(interval.start // length + chunk)
        return tuple(source)

    def region(self, coords: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the elements of chunk `coords` of the part."""
        lengths = zip(coords, self.selected.grid.largest_chunk, self.selected.metadata.shape, strict=True)
        return tuple([slice(chunk * length, min((chunk + 1) * length, total)) for chunk, length, total in lengths])


class SelectedStore(Store):
    """The selected part of the nodes of a store. Used on the I/O thread only, by one copy.

    Args:
        engine: the engine.
        source: the store of the hierarchy.
        tree: its nodes.
        settings: limits and policies.

    Attributes:
        rewritten: number of chunks that were encoded again.
    """

    supports = Supports(partial_reads=False)

    def __init__(self, engine: Engine, source: Store, tree: NodeTree, settings: Settings) -> None:
        self._engine = engine
        self._source = source
        self._tree = tree
        self._settings = settings
        # The copy counts the requests to this store.
        self._scheduled = engine.scheduled(source, settings)
        self._arrays: dict[str, SelectedArray] = {}
        self.rewritten = 0

    @property
    def url(self) -> str:
        return self._source.url

    @property
    def identity(self) -> Hashable:
        return (SelectedStore, id(self))

    @property
    def origin(self) -> Hashable:
        """One origin for all such stores, because their requests to the source wait in the queue of the source."""
        return (SelectedStore,)

    # --- the selection -----------------------------------------------------------------------------------------------

    async def select(self, selection: Selection) -> None:
        """Find the part of each array, and read the coordinates that this requires.

        Raises:
            SelectionError: no array has a dimension of the selection, or nothing of it is selected.
            UnsupportedOperationError: an array to be cut has chunks of different lengths.
        """
        used: set[str] = set()
        names: set[str] = set()
        for path, metadata in self._tree.nodes.items():
            if not isinstance(metadata, ArrayMetadata):
                continue
            layout = ArrayLayout.resolve(metadata, node=self._source.url_of(path), settings=self._settings)
            intervals = [slice(0, length) for length in metadata.shape]
            for dimension, name in enumerate(dimension_names(path, metadata)):
                names.update([name] if name else [])
                # An array by itself may be cut by the numbers of its dimensions.
                given = {name, str(dimension)} if not path else {name}
                found = [key for key in selection if key in given]
                if len(found) > 1:
                    raise SelectionError(f"{found[0]!r} and {found[1]!r} select from the same dimension")
                for key in found:
                    used.add(key)
                    length = metadata.shape[dimension]
                    intervals[dimension] = await self._resolve(path, name or key, selection[key], length)
            shape = [interval.stop - interval.start for interval in intervals]
            selected = layout
            if tuple(shape) != metadata.shape:
                if not isinstance(layout.grid, RegularGrid):
                    raise UnsupportedOperationError(
                        f"{layout.node} has chunks of different lengths, of which no part can be copied; convert it",
                        store=self.url,
                    )
                selected = ArrayLayout.resolve(metadata.with_shape(shape), node=layout.node, settings=self._settings)
            self._arrays[path] = SelectedArray(path, layout, tuple(intervals), selected)
        unknown = [name for name in selection if name not in used]
        if unknown:
            known = ", ".join(map(repr, sorted(names))) or "none with a name"
            raise SelectionError(f"no array of {self.url} has a dimension {unknown[0]!r}; the dimensions are {known}")

    async def _resolve(self, path: str, name: str, part: Any, length: int) -> slice:
        if is_index(part):
            return resolve_indexes(part, length, name=name)
        store, coordinate, metadata = await self._coordinate_array(path, name, length)
        layout = ArrayLayout.resolve(metadata, node=store.url_of(coordinate), settings=self._settings)
        values = await self._read(store, coordinate, layout)
        return resolve_coordinates(part, values, metadata.attributes, name=name)

    async def _coordinate_array(self, path: str, name: str, length: int) -> tuple[Store, str, ArrayMetadata]:
        """Return the array of a dimension's name beside an array, or in the nearest group above it."""
        where = path
        while where:
            where = where.rpartition("/")[0]
            coordinate = key_prefix(where) + name
            metadata = self._tree.nodes.get(coordinate)
            if isinstance(metadata, ArrayMetadata) and metadata.shape == (length,):
                return self._source, coordinate, metadata
        # The source may be a node of a larger store.
        above = await load_array_above(self._engine, self._source, name, length, self._settings)
        if above is None:
            raise SelectionError(
                f"{name!r} of {self._source.url_of(path)} cannot be selected by coordinate: there is no array of "
                "this name and length beside it, or above"
            )
        return above

    # --- as a store --------------------------------------------------------------------------------------------------

    @property
    def documents(self) -> Mapping[str, Buffer | None]:
        """No documents: those of the part are made here."""
        return {}

    def is_current(self, key: str, document: Buffer) -> bool:
        """Return True: the part is that of the nodes as they were loaded."""
        return True

    async def entries(self) -> AsyncGenerator[Entry, None]:
        """Iterate over the objects of the part that may exist."""
        for path, array in self._arrays.items():
            encode = array.selected.key_encoding.encode
            for coords in product(*[range(count) for count in array.selected.grid.shape]):
                yield Entry(key_prefix(path) + encode(coords), None)
        for key in self._tree.documents:
            yield Entry(key, None)

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        check_key(key, store=self.url)
        data = await self._bytes_of(key)
        if data is None:
            return None
        size = memoryview(data).nbytes
        start, stop = resolve_range(size, range)
        return Value(memoryview(data)[start:stop], None, size)

    async def _bytes_of(self, key: str) -> Buffer | None:
        try:
            if key in self._tree.documents:
                return await self._document(key)
            found = self._chunk(key)
            if found is None:
                return None
            array, coords = found
            source = array.source_chunk(coords)
            if source is None:
                return await self._encode_chunk(array, coords)
            value = await self._scheduled.fetch(key_prefix(array.path) + array.layout.key_encoding.encode(source))
            return None if value is None else value.data
        except StoreError as error:
            # It was sent again as often as the settings allow.
            error.retryable = False
            raise

    def _chunk(self, key: str) -> tuple[SelectedArray, tuple[int, ...]] | None:
        path = key
        while path:
            path = path.rpartition("/")[0]
            array = self._arrays.get(path)
            if array is not None:
                rest = key[len(path) + 1 :] if path else key
                coords = array.selected.key_encoding.decode(rest, len(array.intervals))
                return None if coords is None else (array, coords)
        return None

    async def _encode_chunk(self, array: SelectedArray, coords: tuple[int, ...]) -> Buffer | None:
        """Return chunk `coords` of a part as it is stored, or None if it contains only fill values."""
        region = array.region(coords)
        values = await self._read(self._source, array.path, array.layout, array.intervals, region)
        store = MemoryStore()
        maps = IndexTransform.identity(array.selected.metadata.shape).select(region).maps
        settings = Settings(max_chunk_bytes=self._settings.max_chunk_bytes, strict=self._settings.strict)
        await self._engine.write(Write(array.selected, store, "", maps, values), settings=settings)
        self.rewritten += 1
        return await store.get(array.selected.key_encoding.encode(coords))

    async def _read(self, store: Store, path: str, layout: ArrayLayout, *regions: tuple[slice, ...]) -> Any:
        """Return the elements of a region of an array, or of a region of that."""
        transform = IndexTransform.identity(layout.metadata.shape)
        for region in regions:
            transform = transform.select(region)
        values = np.empty(transform.shape, layout.spec.dtype)
        if values.size:
            read = Read(layout, store, key_prefix(path), transform.maps, values)
            await self._engine.read([read], settings=self._settings)
        return values

    async def _document(self, key: str) -> Buffer | None:
        data = self._tree.documents[key]
        if data is None:
            value = await self._scheduled.fetch(key)
            if value is None:
                return None
            data = value.data
        path, _, name = key.rpartition("/")
        if name not in (V3_KEY, ARRAY_KEY, META_KEY, ZMETADATA_KEY):
            return data
        settings = self._settings
        document = load_document(data, max_bytes=settings.max_metadata_bytes, strict=settings.strict)
        members: dict[str, Any] = dict(document.members)
        if path in self._arrays:
            members["shape"] = list(self._arrays[path].selected.metadata.shape)
        for copied_path, copied in _consolidated_copies(name, members):
            array = self._arrays.get(key_prefix(path) + copied_path)
            if array is not None and isinstance(copied, dict) and "shape" in copied:
                copied["shape"] = list(array.selected.metadata.shape)
        return dump_document(members, finite=False)


def _consolidated_copies(name: str, members: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return path and document of each array in the consolidated metadata of a document."""
    if name == ZMETADATA_KEY:
        copies = members.get("metadata")
        if isinstance(copies, dict):
            return [(key.rpartition("/")[0], copy) for key, copy in copies.items() if key.endswith(f"/{ARRAY_KEY}")]
    elif isinstance(inline := members.get(CONSOLIDATED_MEMBER), dict) and isinstance(inline.get("metadata"), dict):
        return list(inline["metadata"].items())
    return []


def dimension_names(path: str, metadata: ArrayMetadata) -> tuple[str | None, ...]:
    """Return the names of an array's dimensions. One dimension without a name has that of the array."""
    names = metadata.dimension_names
    if names is not None:
        return names
    return (path.rpartition("/")[2] or None,) if len(metadata.shape) == 1 else (None,) * len(metadata.shape)
