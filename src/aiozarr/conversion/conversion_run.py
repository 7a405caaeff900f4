"""One execution of a plan: prepares the destination, runs tasks here or in an executor, and stores the documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import TypeAlias

from aiozarr.common.concurrency import ByteSemaphore, for_each, retrieve_error
from aiozarr.common.formatting import argument
from aiozarr.common.progress import Progress
from aiozarr.conversion.conversion_journal import FOLDER, JOURNAL_KEY, ConversionJournal, ConversionReport
from aiozarr.conversion.conversion_task import (
    ArrayPass,
    ConversionTask,
    ConversionWork,
    RegionBuffers,
    TaskResult,
    run_task,
)
from aiozarr.engine import Engine, ScheduledStore
from aiozarr.errors import CopyError, NodeExistsError, StoreError
from aiozarr.hierarchy import Array, internal
from aiozarr.hierarchy.internal import NodeAccess, check_erasable, check_store_writable, erase_node
from aiozarr.metadata.format_rules import ancestors, join_path
from aiozarr.metadata.formats import render_node
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.schedule.events import Report, nested_report, network_requests
from aiozarr.settings import Settings
from aiozarr.stores.blocking import in_thread_uncancelled
from aiozarr.transfer import OnError

MAX_CONCURRENT_TASKS = 32
"""Concurrent tasks of one process, however small, because each keeps many requests in flight."""
MAX_SUBMITTED_TASKS = 256
"""Concurrent tasks of an executor of unknown size: enough for a cluster, and few enough to cancel."""
SAVE_SECONDS = 2.0
"""The time limit for storing the journal of a conversion that failed or was cancelled."""

NumberedTask: TypeAlias = tuple[int, ConversionTask]
"""A task, and the number of its pass."""


@dataclass(eq=False)
class ConversionRun:
    """One execution of a plan. Used on the I/O thread only.

    Args:
        engine: the engine.
        plan: the passes, the documents and the stores.
        settings: limits and policies of documents and the journal; None: those of tasks.
        report: a further record in which requests are counted.
        progress: called when a task has ended.
        on_error: as in `convert`.
    """

    engine: Engine
    plan: ConversionWork
    _: KW_ONLY
    settings: Settings | None = None
    report: Report | None = None
    progress: Callable[[Progress], None] | None = None
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        plan, settings = self.plan, self.settings or self.plan._settings
        # A separate record, because the result counts this conversion alone.
        self._report = nested_report(self.report)
        self._root = NodeAccess(self.engine, plan._store, "", settings, self._report)
        self._temporary = NodeAccess(self.engine, plan._temporary, "", settings, self._report)
        self._journal = ConversionJournal(
            self._root.scheduled, plan.fingerprint(), [stage.tasks for stage in plan.stages]
        )
        self._started = perf_counter()
        self._tasks = self._skipped = self._bytes = self._done = self._bytes_done = 0
        self._cost = TaskResult(0, 0, 0, 0)
        # Shared by all passes, because the memory of one pass is freed only by the next garbage collection.
        self._buffers = RegionBuffers()
        self._failed: list[tuple[str, BaseException]] = []
        self._failed_arrays: set[str] = set()

    async def prepare(self, *, overwrite: bool = False, resume: bool = False) -> None:
        """Check the destination, and store the journal and the documents that the tasks need.

        Args:
            overwrite: first erase everything stored there.
            resume: continue an interrupted conversion.

        Raises:
            NodeExistsError: something is stored there.
            CopyError: an interrupted conversion is stored there, and `resume` is false, or it is another one.
            UnsupportedOperationError: the store cannot write.
        """
        check_store_writable(self._root.store)
        check_store_writable(self._temporary.store)
        if resume and await self._load_done():
            self._skipped = sum([sum(flags) for flags in self._journal.done])
        elif overwrite:
            await check_erasable(self._root)
            await erase_node(self._root)
        else:
            await self._check_free()
        # The journal is stored first, so that everything beside it belongs to an unfinished conversion.
        await self._journal.save()

        async def store(each: ArrayPass) -> None:
            for key, data in render_node(each.documents).items():
                await self._scheduled(each).set(f"{each.destination.documents}/{key}", data)

        await for_each(store, self.plan._passes)

    async def check_all_done(self) -> None:
        """Check that all tasks have run, here or elsewhere, and record that in the journal.

        Raises:
            CopyError: some have not, or the conversion was not prepared, or has been finished.
        """
        url = self._root.url
        if not await self._load_done():
            raise CopyError(f"{url} contains no prepared conversion; it was not prepared, or is already finished")
        missing = sum([flags.count(0) for flags in self._journal.done])
        if missing:
            total = sum(map(len, self._journal.done))
            raise CopyError(
                f"{missing:,} of {total:,} tasks of the conversion into {url} have not run; run them before "
                "finish, one stage after another, or call convert with the same arguments and "
                f"{argument('resume', True)}"
            )
        await self._journal.save()

    async def _load_done(self) -> bool:
        """Adopt the done tasks of the journal, and of the marks that tasks have stored elsewhere.

        Returns: False if no journal is stored.
        """
        if not await self._journal.load():
            return False

        async def load_marks(numbered: tuple[int, ArrayPass]) -> None:
            number, each = numbered
            flags, prefix = self._journal.done[number], each.destination.done_prefix
            async for entry in self._scheduled(each).scan(prefix):
                name = entry.key.removeprefix(prefix)
                if name.isdecimal() and int(name) < len(flags):
                    flags[int(name)] = 1

        await for_each(load_marks, enumerate(self.plan._passes))
        return True

    async def _check_free(self) -> None:
        try:
            await check_free(self._root, self.plan._nodes[""].zarr_format)
        except NodeExistsError as error:
            if await self._root.scheduled.fetch(JOURNAL_KEY) is None:
                raise
            raise CopyError(
                f"{self._root.url} contains an interrupted conversion; {argument('resume', True)} continues it, "
                f"and {argument('overwrite', True)} erases its results and starts over"
            ) from error

    def _scheduled(self, each: ArrayPass) -> ScheduledStore:
        return (self._root if each.is_last else self._temporary).scheduled

    async def run(self, executor: Executor | None) -> None:
        """Run all tasks that are not done yet, stage by stage.

        Raises:
            CopyError: the executor has lost a task.
            TypeError, StoreError, CodecError, LimitError: a task has failed, and `on_error` is "raise".
        """
        self._total = sum([stage.tasks for stage in self.plan.stages])
        self._bytes_total = self.plan.nbytes
        try:
            # Passes of one number, of different arrays, need not wait for each other.
            for _, group in groupby(enumerate(self.plan._passes), key=lambda each: each[1].stage.number):
                passes = [each for each in group if each[1].stage.array not in self._failed_arrays]
                if executor is None:
                    await self._run_here(passes)
                else:
                    await self._run_in(executor, passes)
        except BaseException as error:
            from anyio import move_on_after  # imported here because it is needed only after failures

            # A store that hangs must not hold up a cancellation. Without this record, the last tasks run again.
            with move_on_after(SAVE_SECONDS, shield=True), suppress(StoreError):
                await self._journal.save()
            resume, overwrite = argument("resume", True), argument("overwrite", True)
            if isinstance(error, Exception) and resume not in str(error):
                remains = f"converted data remains at {self._root.url}"
                error.add_note(f"{remains}: {resume} continues, and {overwrite} starts over")
            raise
        await self._journal.save()

    async def finish(self) -> ConversionReport:
        """Store the documents of the result, and erase the journal and the intermediate arrays."""
        nodes = dict(self.plan._nodes)
        for path in self._failed_arrays:
            for each in (path, *ancestors(path)):
                nodes.pop(each, None)
        await store_tree(self._root, nodes)
        if not self._failed:
            # The journal is erased last, because an interrupted erasure needs it to continue.
            if self._temporary.store is not self._root.store:
                await self._temporary.scheduled.erase_prefix(f"{FOLDER}/")
            below = [entry.key async for entry in self._root.scheduled.scan(f"{FOLDER}/")]
            await self._root.scheduled.erase_values([key for key in below if key != JOURNAL_KEY])
            await self._root.scheduled.erase(JOURNAL_KEY)
        return ConversionReport(
            arrays=sum([isinstance(each, ArrayMetadata) for each in nodes.values()]),
            groups=sum([not isinstance(each, ArrayMetadata) for each in nodes.values()]),
            tasks=self._tasks,
            skipped=self._skipped,
            bytes=self._bytes,
            bytes_read=self._report.bytes_fetched + self._cost.bytes_read,
            bytes_written=self._report.bytes_written + self._cost.bytes_written,
            requests=network_requests(self._report) + self._cost.requests,
            seconds=perf_counter() - self._started,
            notes=self.plan.notes,
            failed=tuple(self._failed),
        )

    # --- tasks ---------------------------------------------------------------------------------------------------

    def _pending(self, passes: Sequence[tuple[int, ArrayPass]]) -> Iterator[NumberedTask]:
        for number, _ in passes:
            done = self._journal.done[number]
            for task in self.plan.tasks(number):
                if done[task.number]:
                    self._count(task)
                else:
                    yield number, task

    async def _run_here(self, passes: Sequence[tuple[int, ArrayPass]]) -> None:
        budget = ByteSemaphore(max(1, self.plan.max_memory * 3 // 4))
        arrays: dict[int, tuple[Array, Array]] = {}

        async def work(numbered: NumberedTask) -> None:
            number, task = numbered
            each = self.plan._passes[number]
            async with budget.hold(each.stage.memory):
                try:
                    if number not in arrays:
                        settings = self.plan._settings
                        arrays[number] = (
                            await task.source.open("r", settings),
                            await task.destination.open("r+", settings),
                        )
                    result: TaskResult | Exception = await task.run_between(*arrays[number], self._buffers)
                except Exception as error:
                    result = error
            await self._ended(number, task, result)

        await for_each(work, self._pending(passes), concurrency=MAX_CONCURRENT_TASKS)

    async def _run_in(self, executor: Executor, passes: Sequence[tuple[int, ArrayPass]]) -> None:
        workers = getattr(executor, "_max_workers", None)
        window = 2 * workers + 2 if isinstance(workers, int) else MAX_SUBMITTED_TASKS
        submitted: dict[
            asyncio.Future[TaskResult | Exception], tuple[NumberedTask, Future[TaskResult | Exception]]
        ] = {}
        pending = self._pending(passes)
        try:
            while True:
                while len(submitted) < window and (numbered := next(pending, None)) is not None:
                    # The caller's executor may block: it pickles the task, starts a process, or waits for a cluster.
                    future = await in_thread_uncancelled(partial(_submit, executor, numbered[1]))
                    wrapped = asyncio.wrap_future(future)
                    wrapped.add_done_callback(retrieve_error)
                    submitted[wrapped] = numbered, future
                if not submitted:
                    return
                done, _ = await asyncio.wait(submitted, return_when=asyncio.FIRST_COMPLETED)
                # Results come before errors, so that finished tasks are counted.
                for wrapped in sorted(done, key=lambda each: each.cancelled() or each.exception() is not None):
                    (number, task), _ = submitted.pop(wrapped)
                    await self._ended(number, task, _outcome(wrapped))
        finally:
            for _, future in submitted.values():
                future.cancel()
            running = [wrapped for wrapped, (_, future) in submitted.items() if not future.cancelled()]
            if running:
                await asyncio.wait(running)

    async def _ended(self, number: int, task: ConversionTask, result: TaskResult | Exception) -> None:
        if isinstance(result, Exception):
            name = f"{self.plan._passes[number].stage.array or '.'} {list(task.region)}"
            result.add_note(f"converting the region {name}")
            if self.on_error == "raise":
                raise result
            self._failed.append((name, result))
            self._failed_arrays.add(self.plan._passes[number].stage.array)
        else:
            self._tasks += 1
            self._bytes += task.nbytes
            self._cost = TaskResult(0, *[a + b for a, b in zip(self._cost[1:], result[1:], strict=True)])
            await self._journal.add(number, task.number)
        self._count(task)

    def _count(self, task: ConversionTask) -> None:
        self._done += 1
        self._bytes_done += task.nbytes
        if self.progress is not None:
            self.progress(Progress(self._done, self._total, self._bytes_done, self._bytes_total))


def _submit(executor: Executor, task: ConversionTask) -> Future[TaskResult | Exception]:
    try:
        return executor.submit(run_task, task)
    except RuntimeError as error:
        # A broken pool, or one that was shut down.
        raise _lost(error) from error


def _outcome(future: asyncio.Future[TaskResult | Exception]) -> TaskResult | Exception:
    if future.cancelled():
        raise CopyError(f"the executor has cancelled a task; {argument('resume', True)} continues the conversion")
    error = future.exception()
    if error is not None:
        raise _lost(error) from error
    return future.result()


def _lost(error: BaseException) -> CopyError:
    return CopyError(
        f"the executor has lost a task: {type(error).__name__}: {error}; "
        f"{argument('resume', True)} continues the conversion with a new executor"
    )


# --- the documents of the result ------------------------------------------------------------------------------------


async def check_free(access: internal.NodeAccess, zarr_format: int) -> None:
    """Check that nothing is stored at the destination, and that nodes above it allow nodes of this format.

    Raises:
        NodeExistsError: something is stored there.
        NodeTypeError: a node above is an array, or a group of another format.
    """
    (context,) = await internal.load_contexts([access], zarr_format)

    async def occupied() -> NodeExistsError | None:
        return await internal.node_exists_error(access) if context.exists or context.has_keys_below else None

    await internal.check_creatable(access, context, zarr_format, occupied)


async def store_tree(access: internal.NodeAccess, nodes: Mapping[str, internal.NodeMetadata]) -> None:
    """Store the documents of a tree whose chunks are stored, the deepest first and the root's last.

    Documents of the same keys are replaced. Consolidated metadata of groups above are updated.

    Args:
        access: the access to the root of the tree.
        nodes: the nodes by path relative to it; the root's path is "".
    """

    async def store(path: str) -> None:
        at = access.sibling(join_path(access.path, path, None))
        await internal.store_documents(at, render_node(nodes[path]), replace=True)

    def depth(path: str) -> int:
        return path.count("/")

    for _, paths in groupby(sorted(filter(None, nodes), key=depth, reverse=True), key=depth):
        await for_each(store, list(paths))
    root = nodes.get("")
    if root is None:
        return

    async def load(access: internal.NodeAccess) -> tuple[internal.NodeContext, Sequence[internal.ConsolidatedGroup]]:
        (context,) = await internal.load_contexts([access], root.zarr_format)
        return context, context.consolidated

    async def apply(context: internal.NodeContext, access: internal.NodeAccess) -> tuple[None, internal.NodeChanges]:
        parents = await internal.create_parents(access, [context], root.zarr_format)
        await internal.store_documents(access, render_node(root), replace=True)
        below = [(join_path(access.path, path, None), each) for path, each in nodes.items()]
        return None, [*parents, *below]

    await internal.update_nodes([access], internal.group_keys(), load, apply)
