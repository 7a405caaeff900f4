"""A simulation of several processes that read and write one store: in virtual time, and repeatable by its seed.

Every process has an engine and a store object of its own over the same values. One seed draws the layout, the faults,
the operations, their moments and the delays between attempts.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

import aiozarr
from aiozarr.engine import Engine, private_thread
from aiozarr.errors import NodeExistsError, StoreError, ThrottledError
from aiozarr.model import Precondition, Version
from aiozarr.stores import Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Action, Call, Delay, LoseResponse, Plan
from aiozarr.testing.virtual_time import run_virtual
from tests.support.engine_samples import engine
from tests.support.history import Change, History, Observation

LATENCY = 0.01
RAW = [{"name": "bytes", "configuration": {"endian": "little"}}]
CHECKED = [*RAW, {"name": "crc32c"}]
LAYOUTS: list[dict[str, Any]] = [
    {"shape": (8, 8), "chunks": (4, 4), "codecs": RAW},
    {"shape": (8, 8), "chunks": (3, 8), "codecs": CHECKED},
    {"shape": (8, 8), "chunks": (8, 8), "codecs": RAW},
    {"shape": (8, 8), "chunks": (2, 2), "shards": (4, 8), "codecs": CHECKED},
    {"shape": (8, 8), "chunks": (2, 2), "shards": (8, 8), "codecs": RAW},
    {"shape": (10, 12), "chunks": (2, 2), "shards": (10, 10), "codecs": CHECKED},
    {"shape": (8, 8), "chunks": (2, 4), "zarr_format": 2},
]
SETTINGS: dict[str, list[Any]] = {
    "max_requests": ["auto", "auto", 1, 4],
    "max_bytes_in_flight": [1 << 28, 1 << 28, 1],
    "merge_gap_bytes": ["auto", 0, 64],
    "max_request_bytes": [1 << 24, 64],
    "index_cache_bytes": [1 << 26, 0],
}

# --- processes --------------------------------------------------------------------------------------------------------

_engine: ContextVar[Engine | None] = ContextVar("engine", default=None)


class _EngineOfTask:
    """Gives the engine of the running task in place of the engine of the running thread."""

    def __init__(self, threads: Any) -> None:
        self._threads = threads

    @property
    def engine(self) -> Engine | None:
        return _engine.get() or self._threads.engine

    @engine.setter
    def engine(self, engine: Engine | None) -> None:
        self._threads.engine = engine


@contextmanager
def engines_of_tasks() -> Iterator[None]:
    """Let tasks use the engine of their `Process` on their own loop, in place of the one of the I/O thread."""
    threads = private_thread._thread_state
    private_thread._thread_state = _EngineOfTask(threads)  # type: ignore[assignment]
    try:
        yield
    finally:
        private_thread._thread_state = threads


class SimulatedStore(FakeStore):
    """The store object of one process, over the values of another store.

    The responses to changes take as long as the requests. The store of a killed process does nothing any more.

    Attributes:
        plan: the plan of faults.
        is_killed: whether the process is killed.
    """

    def __init__(self, values: FakeStore, faults: Plan | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.memory = values.memory
        self.is_killed = False
        self.plan = faults
        self.faults = self._fault

    def _fault(self, call: Call) -> Action:
        if self.is_killed:
            return StoreError("the process was killed")
        return None if self.plan is None else self.plan(call)

    async def set(self, key: str, value: Any, *, precondition: Precondition | None = None) -> Version | None:
        version = await super().set(key, value, precondition=precondition)
        await asyncio.sleep(self.latency)
        return version

    async def erase(self, key: str) -> None:
        await super().erase(key)
        await asyncio.sleep(self.latency)

    async def erase_if_match(self, key: str, version: Version) -> None:
        await super().erase_if_match(key, version)
        await asyncio.sleep(self.latency)


class Process:
    """An engine and a store object of its own, as another process has them. Needs a running loop."""

    def __init__(self, store: Store) -> None:
        self.engine = engine()
        self.store = store

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let the running task, and tasks that it starts, belong to this process."""
        token = _engine.set(self.engine)
        try:
            yield
        finally:
            _engine.reset(token)

    def assert_idle(self) -> None:
        """Assert that neither the engine nor the store has anything unfinished."""
        assert self.engine.idle(), "the engine is not idle"
        assert not isinstance(self.store, FakeStore) or self.store.in_flight == 0, "requests are still in flight"


# --- one simulation ---------------------------------------------------------------------------------------------------


class Simulation:
    """One schedule.

    Attributes:
        trace: what happened, in order: operations with their outcomes, and the calls of the stores.
        counts: the number of operations by outcome.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.history = History()
        self.trace: list[str] = []
        self.counts = {"acknowledged": 0, "failed": 0, "cancelled": 0, "reads": 0, "lost responses": 0}
        self._numbers = itertools.count(1)
        self._moments = itertools.count()
        self._attributes: dict[str, bool] = {}
        self._appended: dict[int, tuple[slice, set[int]]] = {}
        self._creations: dict[str, dict[int, bool]] = {}

    def run(self) -> None:
        """Run the schedule, and check its history.

        Raises:
            AssertionError: a value is wrong, or something is left. Its message has the seed and the trace.
        """
        try:
            with engines_of_tasks():
                run_virtual(self._main(), seed=self.seed)
            self.history.check()
        except (Exception, asyncio.CancelledError) as error:
            trace = "\n".join(self.trace)
            raise AssertionError(f"seed {self.seed}: {type(error).__name__}: {error}\n{trace}") from error

    # --- decisions ----------------------------------------------------------------------------------------------------

    def choose(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def happens(self, share: float) -> bool:
        return self.random.random() < share

    def selection(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Draw a region: all, or one of few corners, so that operations share some chunks and not others."""
        if self.happens(0.15):
            return tuple(slice(0, n) for n in shape)
        ends = [sorted(self.random.sample(range(n + 1), 2)) for n in shape]
        return tuple(slice(*each) for each in ends)

    async def pause(self) -> None:
        """Let some loop turns pass, and sometimes a part of a round trip or several of them."""
        for _ in range(self.choose(0, 0, 1, 2, 3, 5, 8, 13)):
            await asyncio.sleep(0)
        if self.happens(0.4):
            await asyncio.sleep(LATENCY * self.choose(0.5, 1.0, 1.5, 3.0, 10.0))

    def faults(self) -> Plan | None:
        """Draw a plan of faults. Those of a store that recovers never fail an operation."""
        share = self.choose(0.03, 0.1)
        kinds: list[Action] = [
            ThrottledError("slow down"),
            LoseResponse(StoreError("reset", retryable=True)),
            Delay(0.3),
        ]
        if not self.recovers:
            kinds += [StoreError("refused"), LoseResponse(StoreError("refused"))]
        drawn, left = random.Random(self.random.random()), [3]

        def plan(call: Call) -> Action:
            if drawn.random() >= share or (self.recovers and not left[0]):
                return None
            left[0] -= 1
            action = drawn.choice(kinds)
            self.counts["lost responses"] += isinstance(action, LoseResponse)
            return action

        return plan

    # --- the schedule -------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        self.recovers = self.happens(0.4)
        count = self.choose(1, 2, 3)
        layout = self.choose(*LAYOUTS)
        # Without versions, several processes lose changes of each other, and reads mix versions of a shard.
        versions = count > 1 or "shards" in layout or self.happens(0.6)
        options: dict[str, Any] = {"bandwidth": self.choose(None, 20_000), "versions": versions}
        values = FakeStore(await _new_arrays(LAYOUTS.index(layout), self.choose(None, (8,))))
        self.shape, self.zarr_format = layout["shape"], layout.get("zarr_format", 3)
        self.history.object_shape = layout.get("shards", layout["chunks"])
        self.kinds = self.choose(
            ["read"], ["write", "read"], ["write", "read", "append", "append", "attributes", "create"]
        )
        # Appends of equal length are the hardest to tell apart.
        self.lengths = self.choose((2,), (1, 2, 3))
        self._note(f"{layout}, {options}, {count} processes, recovers={self.recovers}")
        faults = [self.faults() if self.happens(0.8) else None for _ in range(count)]
        self.stores = [SimulatedStore(values, each, latency=LATENCY, **options) for each in faults]
        for store in self.stores:
            store.sends_nowait = self.happens(0.5)
        try:
            await asyncio.gather(*[self._live(number, store) for number, store in enumerate(self.stores)])
            await self._look_again(values)
        finally:
            self.trace += [f"{n}: {_call_text(call)}" for n, store in enumerate(self.stores) for call in store.calls]

    async def _live(self, number: int, store: SimulatedStore) -> None:
        """Run the clients of one process; some processes are killed."""
        process = Process(store)
        with process.entered():
            names = [f"{number}.{client}" for client in range(self.choose(1, 2, 4, 6))]
            clients = [asyncio.create_task(self._client(name, store)) for name in names]
            killer = asyncio.create_task(self._kill(store, clients)) if self.happens(0.15) else None
            results = await asyncio.gather(*clients, return_exceptions=True)
        if killer is not None:
            await killer
        for result in results:
            if result is not None and not (store.is_killed and isinstance(result, asyncio.CancelledError)):
                raise result
        process.assert_idle()

    async def _kill(self, store: SimulatedStore, clients: list[asyncio.Task[None]]) -> None:
        await asyncio.sleep(LATENCY * self.random.uniform(1, 30))
        self._note("a process is killed")
        store.is_killed = True
        for client in clients:
            client.cancel()

    async def _client(self, name: str, store: SimulatedStore) -> None:
        settings = aiozarr.Settings(**{key: self.choose(*values) for key, values in SETTINGS.items()})
        if len(self.stores) == 1:
            # Another process's changes are seen late in this cache.
            settings = replace(settings, chunk_cache_bytes=self.choose(0, 1 << 24), chunk_cache_seconds=float("inf"))
        array = log = None
        for _ in range(self.choose(2, 3, 5)):
            await self.pause()
            if array is None or log is None:
                array = await self._opened(store, "a", settings)
                log = await self._opened(store, "log", settings)
                continue
            operations = {"write": self._write, "read": self._read, "attributes": self._change_attributes}
            kind = self.choose(*self.kinds)
            if kind == "create":
                operation = self._create(name, store)
            else:
                operation = self._append(name, log) if kind == "append" else operations[kind](name, array)
            await self._perform(operation, store)

    async def _opened(self, store: SimulatedStore, path: str, settings: aiozarr.Settings) -> aiozarr.Array | None:
        try:
            return await aiozarr.open_array(store, path, mode="r+", settings=settings)
        except StoreError:
            assert not self.recovers or store.is_killed
            return None

    async def _perform(self, operation: Coroutine[Any, Any, None], store: SimulatedStore) -> None:
        """Run one operation in a task, which is sometimes cancelled, and then sometimes once more."""
        task = asyncio.ensure_future(operation)
        leaving = asyncio.ensure_future(self._leave(task)) if self.happens(0.25) else None
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            if leaving is not None:
                leaving.cancel()
                await asyncio.wait([leaving])
        error = None if task.cancelled() else task.exception()
        if error is not None:
            assert isinstance(error, StoreError), repr(error)
            assert not self.recovers or store.is_killed, repr(error)

    async def _leave(self, task: asyncio.Future[None]) -> None:
        await self.pause()
        task.cancel()
        if self.happens(0.5):
            await self.pause()
            task.cancel()

    # --- operations ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _operation(self, text: str, change: Change | None = None) -> Iterator[None]:
        self._note(f"{text} begins")
        outcome = "failed"
        try:
            yield
            outcome = "acknowledged"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self.counts[outcome] += 1
            if change is not None:
                change.ended, change.is_acknowledged = next(self._moments), outcome == "acknowledged"
            self._note(f"{text}: {outcome}")

    async def _write(self, name: str, array: aiozarr.Array) -> None:
        region = self.selection(self.shape)
        # The fill value is erased, where nothing else is left.
        number = 0 if self.happens(0.2) else next(self._numbers)
        change = Change(region, number, next(self._moments))
        self.history.changes.append(change)
        with self._operation(f"{name} writes {number} to {_text(region)}", change):
            if self.happens(0.5):
                await array[region].write(number)
            else:
                indices = [list(range(each.start, each.stop)) for each in region]
                await array.oindex[tuple(indices)].write(number)

    async def _read(self, name: str, array: aiozarr.Array) -> None:
        region = self.selection(self.shape)
        started = next(self._moments)
        with self._operation(f"{name} reads {_text(region)}"):
            if is_stream := self.happens(0.2):
                values = np.full(array[region].shape, -1, array.dtype)
                async for part, block in array[region].stream():
                    values[part] = block
            else:
                values = await array[region]
            read = Observation(region, values, started, next(self._moments), is_stream=is_stream)
            self.history.observations.append(read)
            self.counts["reads"] += 1

    async def _change_attributes(self, name: str, array: aiozarr.Array) -> None:
        key = f"n{next(self._numbers)}"
        self._attributes[key] = False
        with self._operation(f"{name} stores the attribute {key}"):
            await array.update_attributes({key: 1})
            self._attributes[key] = True

    async def _create(self, name: str, store: SimulatedStore) -> None:
        """Create an array that other clients create, too, each with an attribute of its own."""
        # Clients that create something at about the same time create the same array.
        path, number = f"new{int(asyncio.get_running_loop().time() * 10)}", next(self._numbers)
        creations = self._creations.setdefault(path, {})
        creations[number] = False
        with self._operation(f"{name} creates {path} with the attribute {number}"), suppress(NodeExistsError):
            options: dict[str, Any] = {"zarr_format": self.zarr_format, "attributes": {"n": number}}
            await aiozarr.create_array(store, path, shape=(4,), chunks=(4,), dtype="i4", **options)
            creations[number] = True

    async def _append(self, name: str, log: aiozarr.Array) -> None:
        number, length = next(self._numbers), self.choose(*self.lengths)
        with self._operation(f"{name} appends {length} times {number}"):
            (end,) = await log.append(np.full(length, number, "i4"))
            region = slice(end - length, end)
            self._note(f"{number} is at {_text((region,))}")
            self._appended[number] = (region, {number})
        if self.happens(0.5):
            again = next(self._numbers)
            possible = self._appended[number][1]
            possible.add(again)
            with self._operation(f"{name} writes {again} over {number}"):
                await log[region].write(again)
                self._appended[number] = (region, {again})

    async def _look_again(self, values: FakeStore) -> None:
        """Check the stored state, by a process without faults."""
        process = Process(SimulatedStore(values))
        with process.entered():
            array = await aiozarr.open_array(process.store, "a")
            started, region = next(self._moments), tuple(slice(0, n) for n in self.shape)
            self.history.observations.append(Observation(region, await array[...], started, next(self._moments)))
            lost = [
                key for key, is_acknowledged in self._attributes.items() if is_acknowledged and key not in array.attrs
            ]
            assert not lost, f"attributes are lost: {lost}"
            for path, creations in self._creations.items():
                created = [number for number, is_acknowledged in creations.items() if is_acknowledged]
                assert len(created) < 2, f"{path} was created by several clients: {created}"
                if created:
                    stored = (await aiozarr.open_array(process.store, path)).attrs["n"]
                    assert [stored] == created, f"{path} was created with {created}, and has {stored}"
            log = await (await aiozarr.open_array(process.store, "log"))[...]
            for number, (part, possible) in self._appended.items():
                elements = log[part].tolist()
                where = f"{number} was appended at {_text((part,))} of {log.tolist()}"
                assert len(elements) == part.stop - part.start, where
                assert {*elements} <= possible, where
        process.assert_idle()

    def _note(self, text: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():.4f} {text}")


_made: dict[tuple[int, tuple[int, ...] | None], dict[str, bytes]] = {}


async def _new_arrays(number: int, shards: tuple[int, ...] | None) -> dict[str, bytes]:
    """Return the documents of two new arrays: `a` of the layout `number`, and `log`, to which elements are appended."""
    if (number, shards) not in _made:
        layout, values = LAYOUTS[number], FakeStore()
        process = Process(values)
        log: dict[str, Any] = {"zarr_format": 2} if "zarr_format" in layout else {"shards": shards}
        with process.entered():
            await aiozarr.create_array(process.store, "a", dtype="i4", **layout)
            await aiozarr.create_array(process.store, "log", shape=(0,), chunks=(4,), dtype="i4", **log)
        keys = await values.memory.list()
        _made[number, shards] = {key: bytes(await values.memory.get(key) or b"") for key in keys}
    return _made[number, shards]


def _call_text(call: Call) -> str:
    part = "" if call.range is None else f" {call.range}"
    end = "never" if call.ended is None else f"{call.ended:.4f}"
    error = "" if call.error is None else repr(call.error)
    return f"{call.started:.4f} to {end} {call.operation} {call.key}{part} {error}"


def _text(region: tuple[slice, ...]) -> str:
    return "[" + ", ".join(f"{each.start}:{each.stop}" for each in region) + "]"
