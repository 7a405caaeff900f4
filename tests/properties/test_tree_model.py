"""A tree equals its model in numpy, whatever several processes do to it, and after crashes.

Zarr-python and TensorStore read the trees on the disk at the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import aiozarr
import aiozarr.sync
from aiozarr.errors import ChangedError, NodeExistsError, NodeNotFoundError, NodeTypeError, StoreError
from aiozarr.stores import CacheStore, LocalStore, Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Action, Call, LoseResponse
from aiozarr.testing.virtual_time import VirtualTimeLoop
from tests.support.expected_arrays import boxed
from tests.support.numpy_indexing import places_of, selected, steps
from tests.support.peer_cases import AnyArray, examples
from tests.support.simulation import Process, SimulatedStore, engines_of_tasks
from tests.support.strategies.arrays import NewArray, basic_selections, codec_chains, v2_arrays, v3_arrays
from tests.support.strategies.elements import Elements, number_elements, same_elements

Draw = Callable[..., Any]
# Stores that check no conditions say so once, and a resize that old elements come back, which is modelled here.
pytestmark = pytest.mark.filterwarnings("ignore")
LONGEST = 14
JSON = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["a", "b", "é"]), JSON, max_size=3)
COMPRESSORS: list[Any] = [None, {"id": "zlib", "level": 1}, {"id": "zstd", "level": 1}, {"id": "blosc", "cname": "lz4"}]
CORE = number_elements().filter(lambda elements: elements.dtype.isbuiltin == 1)
# zarr-python and TensorStore have all of these.
SHARED = {
    2: v2_arrays(elements=CORE, codecs=lambda *_: st.sampled_from(COMPRESSORS).map(lambda each: {"compressor": each})),
    3: v3_arrays(elements=CORE, chains=codec_chains, around_shards=st.just([]), listed=False),
}
PLAIN = (
    st.sampled_from(["i1", ">i2", "u1", "i4", "bool"])
    .map(np.dtype)
    .map(lambda each: Elements(each, each.newbyteorder("=")))
)
INTEGERS = {
    2: v2_arrays(elements=PLAIN, codecs=lambda *_: st.just({"compressor": None})),
    3: v3_arrays(elements=PLAIN, chains=codec_chains, around_shards=st.just([]), listed=False),
}
ANY = {2: v2_arrays(), 3: v3_arrays(listed=False)}
GONE = (ChangedError, NodeNotFoundError, NodeTypeError)
NUMBERS = [0, 1, -1, 5, 127, 128, 300, -(2**31), 2**40]


@dataclass
class Model:
    """A node.

    Attributes:
        serial: differs from that of the node that was at its path before.
        values: the elements; None: a group.
        new: the arguments that the array was created with.
        objects: the shape of a stored object.
        hidden: elements behind an edge since the array became smaller, which may be seen again when it grows.
        is_implicit: whether it is a group whose document was erased. It is gone with the last node below it, unless a
            change has stored the document again.
    """

    serial: int
    attributes: dict[str, Any]
    values: AnyArray | None = None
    new: NewArray | None = None
    objects: tuple[int, ...] = ()
    fill: AnyArray | None = None
    hidden: dict[tuple[int, ...], Any] = field(default_factory=dict)
    is_implicit: bool = False

    @property
    def elements(self) -> AnyArray:
        """The elements of an array."""
        assert self.values is not None
        return self.values

    def resized(self, shape: tuple[int, ...], *, delete_chunks: bool, clear: bool) -> None:
        """Give the model another shape, with the fill value in the gained area."""
        assert self.fill is not None
        old = self.elements
        self.values = np.repeat(self.fill.reshape(1), np.prod(shape, dtype=int)).reshape(shape)
        kept: Any = (*map(slice, np.minimum(old.shape, shape)), ...)
        self.values[kept] = old[kept]
        self.hidden |= {place: old[place] for place in np.ndindex(old.shape) if is_outside(place, shape)}
        if delete_chunks:
            before, after = self._grid(old.shape), self._grid(shape)
            for place in list(self.hidden):
                chunk = tuple(n // length for n, length in zip(place, self.objects, strict=True))
                if is_outside(chunk, after) and not is_outside(chunk, before):
                    del self.hidden[place]
        if clear:
            self.hidden = {place: each for place, each in self.hidden.items() if is_outside(place, shape)}

    def adopt(self, found: AnyArray) -> None:
        """Take over hidden elements that are visible again: each is what was there, or the fill value."""
        assert self.fill is not None
        for place in [place for place in self.hidden if not is_outside(place, self.elements.shape)]:
            element = boxed(found[place], found.dtype)
            hidden = boxed(self.hidden.pop(place), found.dtype)
            assert same_elements(element, hidden) or same_elements(element, self.fill), place
            self.elements[place] = found[place]

    def _grid(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-(-n // length) for n, length in zip(shape, self.objects, strict=True))


@dataclass
class Handle:
    """A handle that somebody has kept."""

    process: int
    path: str
    serial: int
    array: aiozarr.Array


def is_outside(place: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return any(n >= length for n, length in zip(place, shape, strict=True))


class TreeMachine(RuleBasedStateMachine):
    """Random changes of a tree, by several processes."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.serials, self.turns = count(), count()
        self.nodes: dict[str, Model] = {}
        self.handles: list[Handle] = []

    @initialize(
        data=st.data(), place=st.sampled_from(["memory", "memory", "disk"]), zarr_format=st.sampled_from([2, 3])
    )
    def begin(self, data: st.DataObject, place: str, zarr_format: int) -> None:
        self.zarr_format, self.place = zarr_format, place
        self.folder = Path(self.closing.enter_context(TemporaryDirectory())) if place == "disk" else None
        self.outside = Path(self.closing.enter_context(TemporaryDirectory()))
        self.values = FakeStore(latency=0)
        self.closing.enter_context(engines_of_tasks())
        self.runner = self.closing.enter_context(asyncio.Runner(loop_factory=VirtualTimeLoop))
        # Without conditions, only one process may write.
        count = 1 if place == "without conditions" else data.draw(st.integers(1, 3), "processes")
        self.options = [self.settings(data, alone=count == 1) for _ in range(count)]
        self.caches = [place == "memory" and data.draw(st.integers(0, 3), "cache") == 0 for _ in range(count)]
        self.processes = [self.runner.run(self.started(number)) for number in range(count)]
        self.run(0, lambda: aiozarr.create_group(self.processes[0].store, zarr_format=zarr_format))
        self.nodes[""] = Model(next(self.serials), {})
        self.create_array(data=data, overwrite=False, attributes={})

    def settings(self, data: st.DataObject, *, alone: bool) -> aiozarr.Settings:
        """Draw settings; a cache of chunks sees the changes of other processes when a second has passed."""
        return aiozarr.Settings(
            chunk_cache_bytes=data.draw(st.sampled_from([0, 0, 1 << 20])),
            chunk_cache_seconds=60 if alone else 0.5,
            index_cache_bytes=data.draw(st.sampled_from([0, 1 << 20])),
            merge_gap_bytes=data.draw(st.sampled_from(["auto", 0])),
            max_request_bytes=data.draw(st.sampled_from([64, 1 << 20])),
        )

    def new_store(self) -> Store:
        if self.folder is not None:
            return LocalStore(self.folder)
        return SimulatedStore(self.values, latency=0, versions=self.place == "memory")

    async def started(self, number: int) -> Process:
        store = self.new_store()
        return Process(CacheStore(store, 1 << 20) if self.caches[number] else store)

    def run(self, process: int, operation: Callable[[], Awaitable[Any]]) -> Any:
        """Await `operation()` in a process, a second after the operation before."""

        async def main() -> Any:
            await asyncio.sleep(1)
            with self.processes[process].entered():
                return await operation()

        return self.runner.run(main())

    def teardown(self) -> None:
        try:
            if self.nodes:
                for directory in self.outside.iterdir():
                    assert len(list(directory.iterdir())) == 2, "files behind a link are gone"
                self.compare_with_peers()
                for process in self.processes:
                    process.assert_idle()
        finally:
            self.closing.close()

    # --- what is drawn ------------------------------------------------------------------------------------------------

    def process(self, data: st.DataObject) -> int:
        return int(data.draw(st.integers(0, len(self.processes) - 1), "process"))

    def arrays(self) -> list[str]:
        return sorted(path for path, node in self.nodes.items() if node.values is not None)

    def groups(self) -> list[str]:
        return sorted(path for path, node in self.nodes.items() if node.values is None)

    def new_path(self, data: st.DataObject) -> str:
        parent = data.draw(st.sampled_from([path for path in self.groups() if path.count("/") < 2]), "parent")
        return f"{parent}/{data.draw(st.sampled_from('abc'), 'name')}".lstrip("/")

    def some_path(self, data: st.DataObject) -> str:
        return str(data.draw(st.sampled_from(sorted(set(self.nodes) - {""})), "path"))

    def handle(self, data: st.DataObject) -> Handle:
        """Draw an array, and a handle of it: one that was kept, or a new one."""
        path, process = data.draw(st.sampled_from(self.arrays()), "array"), self.process(data)
        handles = [each for each in self.handles if (each.path, each.serial) == (path, self.nodes[path].serial)]
        if handles and data.draw(st.integers(0, 3), "kept handle") != 0:
            return handles[data.draw(st.integers(0, len(handles) - 1), "handle")]
        return self.opened(process, path)

    def opened(self, process: int, path: str) -> Handle:
        store, options = self.processes[process].store, self.options[process]
        array = self.run(process, lambda: aiozarr.open_array(store, path, mode="r+", settings=options))
        handle = Handle(process, path, self.nodes[path].serial, array)
        self.handles.append(handle)
        return handle

    def root(self, process: int, **options: Any) -> Coroutine[Any, Any, aiozarr.Group]:
        async def opened() -> aiozarr.Group:
            return await aiozarr.open_group(self.processes[process].store, mode="r+", **options)

        return opened()

    # --- changes of the tree ------------------------------------------------------------------------------------------

    @rule(data=st.data(), overwrite=st.booleans(), attributes=ATTRIBUTES)
    def create_array(self, data: st.DataObject, overwrite: bool, attributes: dict[str, Any]) -> None:
        path, process = self.new_path(data), self.process(data)
        # Every machine has an array of integers or bools, which most of the rules change in most ways.
        kind = INTEGERS if path not in self.nodes and not self.arrays() else SHARED if self.folder is not None else ANY
        new = data.draw(kind[self.zarr_format], "new array")
        # In format 2 the names are an attribute.
        new = replace(new, options={**new.options, "dimension_names": None})

        async def create() -> aiozarr.Array:
            options = {
                **new.options,
                "attributes": attributes,
                "overwrite": overwrite,
                "settings": self.options[process],
            }
            return await aiozarr.create_array(self.processes[process].store, path, **options)

        array = self.created(path, process, create, overwrite=overwrite)
        if array is None:
            return
        fill = np.asarray(array.metadata.fill_value)
        values = np.repeat(fill.reshape(1), np.prod(new.shape, dtype=int)).reshape(new.shape)
        objects = array.shards or array.chunks
        self.nodes[path] = Model(next(self.serials), attributes, values, new, objects, fill)
        self.handles.append(Handle(process, path, self.nodes[path].serial, array))
        if self.folder is not None:
            self.link(self.folder / path / "link")

    def link(self, link: Path) -> None:
        """Link to a directory outside of the tree, whose files stay whatever happens to the tree."""
        target = self.outside / f"{next(self.serials)}"
        target.mkdir()
        for name in (".zattrs", "x"):
            (target / name).write_text("{}", "utf-8")
        link.symlink_to(target)

    @precondition(lambda self: len(self.nodes) < 6)
    @rule(data=st.data(), overwrite=st.booleans(), attributes=ATTRIBUTES)
    def create_group(self, data: st.DataObject, overwrite: bool, attributes: dict[str, Any]) -> None:
        path, process = self.new_path(data), self.process(data)
        overwrite = overwrite or (path in self.nodes and self.nodes[path].is_implicit)
        options: dict[str, Any] = {"zarr_format": self.zarr_format, "attributes": attributes, "overwrite": overwrite}
        create = lambda: aiozarr.create_group(self.processes[process].store, path, **options)  # noqa: E731
        if self.created(path, process, create, overwrite=overwrite) is not None:
            self.nodes[path] = Model(next(self.serials), attributes)

    def created(self, path: str, process: int, create: Callable[[], Awaitable[Any]], *, overwrite: bool) -> Any:
        """Create a node; return None if it was refused because another one exists."""
        if path in self.nodes and not overwrite:
            with pytest.raises(NodeExistsError):
                self.run(process, create)
            return None
        node = self.run(process, create)
        self.forget(path, process)
        return node

    def forget(self, path: str, process: int) -> None:
        """Remove a subtree from the model. Other processes are not told, so their handles are useless."""
        gone = {each for each in self.nodes if f"{each}/".startswith(f"{path}/")}
        self.nodes = {each: node for each, node in self.nodes.items() if each not in gone}
        self.handles = [each for each in self.handles if each.path not in gone or self.knows(each, process)]

    def knows(self, handle: Handle, process: int) -> bool:
        return handle.process == process or self.folder is not None

    @precondition(lambda self: len(self.nodes) > 2)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        path, process = self.some_path(data), self.process(data)

        async def delete() -> None:
            await (await self.root(process)).delete(path)

        self.run(process, delete)
        self.forget(path, process)

    @precondition(lambda self: len(self.nodes) > 2)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        source, dest, process = self.some_path(data), self.new_path(data), self.process(data)

        async def move() -> None:
            await (await self.root(process)).move(source, dest)

        if source == dest or dest.startswith(f"{source}/") or source.startswith(f"{dest}/"):
            return
        try:
            self.run(process, move)
        except NodeExistsError:
            assert dest in self.nodes
            return
        if dest in self.nodes:
            # Equal documents count as those that an interrupted move has left.
            assert self.nodes[dest].attributes == self.nodes[source].attributes
            self.forget(dest, process)
        moved = {path: node for path, node in self.nodes.items() if f"{path}/".startswith(f"{source}/")}
        self.forget(source, process)
        for path, node in moved.items():
            self.nodes[dest + path[len(source) :]] = replace(node, serial=next(self.serials))

    @rule(data=st.data(), attributes=ATTRIBUTES, is_replaced=st.booleans())
    def change_attributes(self, data: st.DataObject, attributes: dict[str, Any], is_replaced: bool) -> None:
        path, process = data.draw(st.sampled_from(sorted(self.nodes)), "path"), self.process(data)

        async def change() -> None:
            node = await aiozarr.open(self.processes[process].store, path, mode="r+")
            await (node.replace_attributes if is_replaced else node.update_attributes)(attributes)

        self.run(process, change)
        node = self.nodes[path]
        node.attributes = dict(attributes) if is_replaced else node.attributes | attributes

    @rule(data=st.data())
    def consolidate(self, data: st.DataObject) -> None:
        process, path = self.process(data), data.draw(st.sampled_from(self.groups()), "group")
        store = self.processes[process].store
        self.run(process, lambda: aiozarr.consolidate_metadata(store, path, zarr_format=self.zarr_format))

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        process, other = self.process(data), FakeStore(latency=0)

        async def copy() -> None:
            await aiozarr.copy(self.processes[process].store, other)
            await self.compare(other)

        self.run(process, copy)

    @rule(data=st.data(), chunks=st.sampled_from([None, 1, 2, 5]))
    def convert(self, data: st.DataObject, chunks: int | None) -> None:
        process, other = self.process(data), FakeStore(latency=0)

        async def convert() -> None:
            options: dict[str, Any] = {} if chunks is None else {"chunks": chunks, "shards": False}
            await aiozarr.convert(self.processes[process].store, other, **options)
            await self.compare(other)

        self.run(process, convert)

    @precondition(lambda self: self.groups_above_nodes())
    @rule(data=st.data(), keeps_attributes=st.booleans())
    def erase_the_document_of_a_group(self, data: st.DataObject, keeps_attributes: bool) -> None:
        """Another program leaves a group without a document, also in the consolidated metadata of groups above."""
        path, process = data.draw(st.sampled_from(self.groups_above_nodes()), "group"), self.process(data)
        keys = ["zarr.json"] if self.zarr_format == 3 else [".zgroup", ".zmetadata"]
        keys += [".zattrs"] if self.zarr_format == 2 and not keeps_attributes else []

        async def erase() -> None:
            store = self.new_store()
            for key in keys:
                await store.erase(f"{path}/{key}")
            for above in self.groups():
                if f"{path}/".startswith(f"{above}/" if above else ""):
                    await self.leave_out(store, above, path[len(above) :].lstrip("/"), keys)

        self.run(process, erase)
        node = self.nodes[path]
        node.is_implicit = True
        node.attributes = node.attributes if self.zarr_format == 2 and keeps_attributes else {}

    async def leave_out(self, store: Store, above: str, name: str, keys: list[str]) -> None:
        """Remove the documents of a node from the consolidated metadata of a group."""
        key = f"{above}/{'zarr.json' if self.zarr_format == 3 else '.zmetadata'}".lstrip("/")
        stored = await store.get(key)
        document = {} if stored is None else json.loads(bytes(stored))
        copies = document if self.zarr_format == 2 else document.get("consolidated_metadata")
        if copies:
            for each in [name] if self.zarr_format == 3 else [f"{name}/{key}" for key in keys]:
                copies["metadata"].pop(each, None)
            await store.set(key, json.dumps(document).encode())

    def groups_above_nodes(self) -> list[str]:
        return [path for path in self.groups() if path and any(each.startswith(f"{path}/") for each in self.nodes)]

    async def forget_empty_folders(self) -> None:
        """Remove groups from the model that have neither a document nor a node below any more."""
        store, key = self.new_store(), "zarr.json" if self.zarr_format == 3 else ".zgroup"
        for path in sorted((path for path, node in self.nodes.items() if node.is_implicit), reverse=True):
            if await store.get(f"{path}/{key}") is not None:
                self.nodes[path].is_implicit = False
            elif not any(each.startswith(f"{path}/") for each in self.nodes):
                await store.erase(f"{path}/.zattrs")  # they would hinder a new group with other attributes
                del self.nodes[path]

    # --- changes of one array -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.arrays())
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        handle = self.handle(data)
        if self.nodes[handle.path].elements.dtype.kind in "iu" and data.draw(st.booleans(), "another type"):
            self.write_numbers_of_another_type(handle, data)
            return
        changed, view, values = self.drawn_write(handle, data)
        self.run(handle.process, lambda: view.write(values))
        self.nodes[handle.path].values = changed

    def drawn_write(self, handle: Handle, data: st.DataObject) -> tuple[AnyArray, Any, AnyArray]:
        """Draw a view and its values; return the elements after the write, too."""
        node = self.nodes[handle.path]
        view, places = self.drawn_view(handle, data)
        assert node.new is not None
        values: Any = data.draw(node.new.contents(places.shape), "values")
        written = values
        if values.dtype.kind == "b":
            # Any byte but 0 is true in numpy, and only 1 is true in a chunk.
            written = (values.view("u1") * data.draw(st.sampled_from([1, 2, 255]), "byte of true")).view(bool)
        changed = node.elements.copy()
        target = changed
        if changed.dtype.names and data.draw(st.booleans(), "field"):
            name = data.draw(st.sampled_from(changed.dtype.names))
            view, values, target = view[name], values[name], changed[name]
            written = values
        # One after the other: of repeated elements the last value stays.
        for place, value in zip(
            places.reshape(-1), values.reshape((places.size, *values.shape[places.ndim :])), strict=True
        ):
            target[np.unravel_index(place, node.elements.shape)] = value
        return changed, view, written

    def drawn_view(self, handle: Handle, data: st.DataObject) -> tuple[Any, AnyArray]:
        """Draw elements that both the handle and the array have: a view, and their numbers in the array."""
        array, shape = handle.array, self.nodes[handle.path].elements.shape
        numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        common: Any = (*map(slice, np.minimum(array.shape, shape)), ...)
        if array.shape == shape and array.size and shape and data.draw(st.integers(0, 3), "block") == 0:
            grid = array.blocks.shape
            block = np.unravel_index(data.draw(st.integers(0, int(np.prod(grid)) - 1)), grid)
            objects = self.nodes[handle.path].objects
            region = tuple(slice(n * length, (n + 1) * length) for n, length in zip(block, objects, strict=True))
            return array.blocks[tuple(map(int, block))], numbers[region]
        part = numbers[common]
        if data.draw(st.integers(0, 2), "last object") == 0:
            # The chunks across the edge, as far as this handle knows.
            lengths = zip(part.shape, self.nodes[handle.path].objects, strict=True)
            edge: Any = (*[slice(max(0, n - 1) // length * length, n) for n, length in lengths], ...)
            return array[edge], part[edge]
        chain = data.draw(steps(part.shape), "selection")
        return selected(array[common], chain), part.reshape(-1)[places_of(part.shape, chain)]

    def write_numbers_of_another_type(self, handle: Handle, data: st.DataObject) -> None:
        node = self.nodes[handle.path]
        view, places = self.drawn_view(handle, data)
        pool = data.draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3), "numbers")
        values = np.resize(np.array(pool, np.int64), places.size).reshape(places.shape)
        limits = np.iinfo(node.elements.dtype)
        if ((values < limits.min) | (values > limits.max)).any():
            with pytest.raises(OverflowError):
                self.run(handle.process, lambda: view.write(values))
            return
        self.run(handle.process, lambda: view.write(values))
        for place, value in zip(places.flat, values.flat, strict=True):
            node.elements[np.unravel_index(place, node.elements.shape)] = value

    @precondition(lambda self: self.arrays())
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        handle = self.handle(data)
        values = self.nodes[handle.path].elements
        view, places = self.drawn_view(handle, data)
        found = boxed(self.run(handle.process, view.read), values.dtype)
        assert same_elements(found, boxed(values.reshape(-1)[places], values.dtype))

    @precondition(lambda self: self.arrays())
    @rule(data=st.data(), delete_chunks=st.booleans(), clear=st.booleans(), again=st.booleans())
    def resize(self, data: st.DataObject, delete_chunks: bool, clear: bool, again: bool) -> None:
        handle = self.handle(data)
        before = self.nodes[handle.path].elements.shape
        lengths = tuple(data.draw(st.integers(0, min(n + 3, LONGEST)) | st.integers(0, n // 2)) for n in before)
        for shape in [lengths, before] if again else [lengths]:
            resize = partial(handle.array.resize, shape, delete_chunks=delete_chunks, clear=clear)
            self.run(handle.process, resize)
            self.nodes[handle.path].resized(shape, delete_chunks=delete_chunks, clear=clear)
            self.nodes[handle.path].adopt(self.run(handle.process, handle.array[...].read))

    @precondition(lambda self: self.arrays())
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        handle = self.handle(data)
        node = self.nodes[handle.path]
        if not node.elements.ndim or node.new is None:
            return
        axis = data.draw(st.integers(0, node.elements.ndim - 1))
        shape = list(node.elements.shape)
        shape[axis] = data.draw(st.integers(0, 3))
        values = data.draw(node.new.contents(tuple(shape)), "values")
        grown = self.run(handle.process, lambda: handle.array.append(values, axis))
        self.appended(node, values, axis)
        assert grown == handle.array.shape == node.elements.shape

    def appended(self, node: Model, values: AnyArray, axis: int) -> None:
        node.values = np.concatenate([node.elements, values], axis)
        node.hidden = {place: each for place, each in node.hidden.items() if is_outside(place, node.elements.shape)}

    @precondition(lambda self: self.arrays() and len(self.processes) > 1)
    @rule(data=st.data(), method=st.sampled_from(["read", "write", "append", "resize"]))
    def use_the_blocking_interface(self, data: st.DataObject, method: str) -> None:
        """Open an array in this thread, whose calls run on the I/O thread: one process more."""
        path = data.draw(st.sampled_from(self.arrays()), "array")
        node, array = self.nodes[path], aiozarr.sync.open_array(self.new_store(), path, mode="r+")
        assert node.new is not None
        shape = node.elements.shape
        selection = data.draw(basic_selections(shape), "selection")
        if method == "read":
            assert same_elements(boxed(array[selection], array.dtype), boxed(node.elements[selection], array.dtype))
        elif method == "write":
            part = np.empty(shape, bool)[selection].shape
            node.elements[selection if ... in selection else (*selection, ...)] = values = data.draw(
                node.new.contents(part)
            )
            array[selection] = values
        elif method == "append" and shape:
            added = data.draw(node.new.contents((data.draw(st.integers(0, 3)), *shape[1:])))
            array.append(added)
            self.appended(node, added, 0)
        else:
            lengths = tuple(data.draw(st.integers(0, n + 1)) for n in shape)
            array.resize(lengths, clear=True)
            node.resized(lengths, delete_chunks=True, clear=True)

    # --- handles of what has been replaced ----------------------------------------------------------------------------

    @precondition(lambda self: self.stale())
    @rule(data=st.data(), is_written=st.booleans())
    def use_a_handle_of_a_replaced_array(self, data: st.DataObject, is_written: bool) -> None:
        stale = self.stale()
        handle = stale[data.draw(st.integers(0, len(stale) - 1), "handle")]
        self.handles.remove(handle)
        node, dtype = self.nodes.get(handle.path), handle.array.dtype
        is_equal = node is not None and node.values is not None and node.values.dtype == dtype
        if is_written:
            if not is_equal:
                with pytest.raises(GONE):
                    self.run(handle.process, lambda: handle.array[...].write(np.zeros((), dtype)))
            return
        try:
            found = self.run(handle.process, handle.array[...].read)
        except GONE:
            return
        assert is_equal, f"a handle of {handle.path}, which was replaced, reads {found}"
        assert node is not None
        common: Any = (*map(slice, np.minimum(found.shape, node.elements.shape)), ...)
        assert same_elements(found[common], node.elements[common])

    def stale(self) -> list[Handle]:
        return [
            each for each in self.handles if each.path not in self.nodes or each.serial != self.nodes[each.path].serial
        ]

    # --- crashes ------------------------------------------------------------------------------------------------------

    def crash(self, data: st.DataObject, process: int, operation: Callable[[], Awaitable[Any]]) -> bool:
        """Let a process crash in the middle of `operation`, and start it again. Return whether it came to its end."""
        last, is_lost = data.draw(st.integers(0, 6), "calls"), data.draw(st.booleans(), "takes effect")
        store, calls = self.processes[process].store, count()

        def plan(_: Call) -> Action:
            number, broken = next(calls), StoreError("the process has crashed")
            return None if number < last else LoseResponse(broken) if number == last and is_lost else broken

        inner = getattr(store, "_store", store)
        assert isinstance(inner, SimulatedStore)
        inner.plan = plan
        try:
            self.run(process, operation)
        except StoreError:
            is_done = False
        else:
            is_done = True
        self.processes[process] = self.runner.run(self.started(process))
        self.handles = [each for each in self.handles if each.process != process]
        return is_done

    @precondition(lambda self: self.arrays() and self.folder is None)
    @rule(data=st.data())
    def crash_in_a_write(self, data: st.DataObject) -> None:
        handle = self.handle(data)
        changed, view, values = self.drawn_write(handle, data)
        node = self.nodes[handle.path]
        is_done = self.crash(data, handle.process, lambda: view.write(values))
        if not is_done:
            found = self.run(handle.process, self.opened(handle.process, handle.path).array[...].read)
            for place in np.ndindex(changed.shape):
                element = boxed(found[place], found.dtype)
                old, new = boxed(node.elements[place], found.dtype), boxed(changed[place], found.dtype)
                if not (same_elements(element, old) or same_elements(element, new)):
                    assert found.dtype.names, f"{place} is neither old nor new"
            changed = found
        node.values = changed

    @precondition(lambda self: self.arrays() and self.folder is None)
    @rule(data=st.data(), clear=st.booleans())
    def crash_in_a_resize(self, data: st.DataObject, clear: bool) -> None:
        handle = self.handle(data)
        node = self.nodes[handle.path]
        shape = tuple(data.draw(st.integers(0, min(n + 3, LONGEST))) for n in node.elements.shape)
        self.crash(data, handle.process, partial(handle.array.resize, shape, clear=clear))
        # Repeated, it is complete.
        again = self.opened(handle.process, handle.path)
        assert again.array.shape in (shape, node.elements.shape)
        self.run(handle.process, partial(again.array.resize, shape, clear=clear))
        node.resized(shape, delete_chunks=True, clear=clear)
        node.adopt(self.run(handle.process, again.array[...].read))

    @precondition(lambda self: len(self.nodes) > 2 and self.folder is None)
    @rule(data=st.data())
    def crash_in_a_deletion(self, data: st.DataObject) -> None:
        path, process = self.some_path(data), self.process(data)

        async def delete() -> None:
            await (await self.root(process)).delete(path)

        self.crash(data, process, delete)
        with suppress(NodeNotFoundError):
            self.run(process, delete)
        self.forget(path, -1)

    @precondition(lambda self: self.folder is None)
    @rule(data=st.data(), attributes=ATTRIBUTES)
    def crash_in_a_change_of_attributes(self, data: st.DataObject, attributes: dict[str, Any]) -> None:
        path, process = data.draw(st.sampled_from(sorted(self.nodes)), "path"), self.process(data)
        node = self.nodes[path]

        async def opened() -> Any:
            return await aiozarr.open(self.processes[process].store, path, mode="r+")

        async def change() -> None:
            await (await opened()).replace_attributes(attributes)

        self.crash(data, process, change)
        found = dict(self.run(process, opened).attrs)
        assert found in (node.attributes, attributes)
        node.attributes = found

    @precondition(lambda self: self.folder is None)
    @rule(data=st.data())
    def crash_in_a_consolidation(self, data: st.DataObject) -> None:
        process, path = self.process(data), data.draw(st.sampled_from(self.groups()), "group")
        store = self.processes[process].store
        self.crash(data, process, lambda: aiozarr.consolidate_metadata(store, path, zarr_format=self.zarr_format))

    # --- checks -------------------------------------------------------------------------------------------------------

    @invariant()
    def equal(self) -> None:
        if self.nodes:
            process = next(self.turns) % len(self.processes)
            self.run(process, self.forget_empty_folders)
            self.run(process, lambda: self.compare(self.processes[process].store))

    async def compare(self, store: Store) -> None:
        """Compare what is stored with the model, through consolidated metadata and without them."""
        for use_consolidated in (None, False):
            root = await aiozarr.open_group(store, use_consolidated=use_consolidated, settings=self.options[0])
            found: dict[str, Any] = {name: node async for name, node in root.members(None)}
            assert {*found} == {*self.nodes} - {""}
            for path, node in {**found, "": root}.items():
                model = self.nodes[path]
                assert dict(node.attrs) == model.attributes, path
                assert isinstance(node, aiozarr.Array) == (model.values is not None), path
                if model.values is not None and use_consolidated is None:
                    assert same_elements(await node[...], model.values), path

    def compare_with_peers(self) -> None:
        """Compare arrays on the disk with what zarr-python and TensorStore read."""
        for path in self.arrays() if self.folder is not None else ():
            assert self.folder is not None
            folder, values = self.folder / path, self.nodes[path].elements
            document = folder / ("zarr.json" if self.zarr_format == 3 else ".zarray")
            is_sharded = "sharding_indexed" in document.read_text("utf-8")
            if values.ndim or not is_sharded:  # zarr-python fails to index shards without dimensions.
                found: Any = np.asarray(zarr.open_array(folder, mode="r", zarr_format=self.zarr_format)[...])  # type: ignore[arg-type]
                assert same_elements(found.astype(values.dtype), values), path
            driver = "zarr3" if self.zarr_format == 3 else "zarr"
            spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{folder}/"}}
            found = np.asarray(tensorstore.open(spec).result().read().result())
            assert same_elements(found.astype(values.dtype), values), path


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(examples(30), stateful_step_count=15)
