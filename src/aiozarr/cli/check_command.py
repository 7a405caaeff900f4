"""The command check: compares the objects of two locations."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from aiozarr.cli.exit_codes import ERROR
from aiozarr.cli.output import Output, bytes_text, output_options, plain
from aiozarr.cli.targets import TargetOptions, check_listable, copy_store_options, iterated

if TYPE_CHECKING:
    from aiozarr.engine import Progress, ScheduledStore
    from aiozarr.model import Entry
    from aiozarr.transfer.key_filter import KeyFilter

State = Literal["equal", "differs", "missing", "surplus", "error"]
SIGNS: dict[State, str] = {"equal": "=", "differs": "*", "missing": "-", "surplus": "+", "error": "!"}
"""The signs of `rclone check --combined`, seen from the destination."""

CONCURRENT_COMPARISONS = 32
PART_BYTES = 8 << 20


class Comparison(NamedTuple):
    """The result for one key: its state, and the sizes on both sides, None where there is no object."""

    key: str
    state: State
    source_size: int | None
    destination_size: int | None
    reason: str


@click.command()
@click.argument("src")
@click.argument("dst")
@click.option("--download", is_flag=True, help="Compare the bytes of all objects, not only their sizes.")
@click.option("--one-way", is_flag=True, help="Objects that only DST has are no difference.")
@click.option("--include", metavar="GLOB", multiple=True, help="Only keys that match; may be repeated.")
@click.option("--exclude", metavar="GLOB", multiple=True, help="No keys that match; may be repeated.")
@copy_store_options
@output_options
def check(
    src: str,
    dst: str,
    download: bool,
    one_way: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    stores: TargetOptions,
    out: Output,
) -> None:
    """Compare the objects below SRC and DST by key and size, or with --download by all bytes.

    The metadata of SRC name its objects if its server cannot list, as web servers cannot.

    Differences are printed with the signs of rclone: * differs, - is missing in DST, + is in DST only, ! is an error.
    With -v equal objects are printed too, with the sign =. The exit status is 1 if there is a difference.
    """
    counts: dict[str, int] = dict.fromkeys(SIGNS, 0)

    from aiozarr.transfer.key_filter import KeyFilter

    wanted = KeyFilter(include, exclude)
    with (
        out.progress("comparing") as progress,
        iterated(_compare(src, dst, stores, wanted, download=download, progress=progress)) as items,
    ):
        for each in items:
            if one_way and each.state == "surplus":
                continue
            counts[each.state] += 1
            if each.state != "equal" or out.verbose:
                reason = f": {each.reason}" if each.reason else ""
                record = {"type": "object", **each._asdict()}
                out.record(record, f"{SIGNS[each.state]} {plain(each.key)}{reason}")
    if out.as_json:
        out.record({"type": "total", **dict(counts.items())}, "")
    out.say(", ".join([f"{number:,} {state}" for state, number in counts.items()]))
    if sum(counts.values()) > counts["equal"]:
        sys.exit(ERROR)


async def _compare(
    src: str,
    dst: str,
    stores: TargetOptions,
    wanted: KeyFilter,
    *,
    download: bool,
    progress: Callable[[Progress], None] | None,
) -> AsyncGenerator[Comparison, None]:
    """Yield a comparison of each key. The listing of the destination is held in memory, that of the source is not.

    Raises:
        NodeNotFoundError: nothing is stored at the source.
    """
    from aiozarr.concurrency import map_concurrently
    from aiozarr.engine import Progress, bind_callback
    from aiozarr.engine.open_store import opened_store
    from aiozarr.engine.private_thread import current_engine
    from aiozarr.errors import NodeNotFoundError
    from aiozarr.settings import DEFAULT_SETTINGS

    engine = current_engine()
    assert engine is not None, "runs on the I/O thread"
    report = bind_callback(progress)
    scheduled: list[ScheduledStore] = []
    async with AsyncExitStack() as stack:
        for target, side in ((src, "source"), (dst, "destination")):
            store, _ = await stack.enter_async_context(opened_store(target, stores.of(target, side), DEFAULT_SETTINGS))
            stack.push_async_callback(store.aclose)
            if side == "destination":
                check_listable(store)
            scheduled.append(engine.scheduled(store, DEFAULT_SETTINGS))
        source, destination = scheduled
        others = {entry.key: entry.size async for entry in destination.scan() if wanted.matches(entry.key)}
        done = done_bytes = 0

        async def compare(entry: Entry) -> Comparison:
            nonlocal done, done_bytes
            if entry.key not in others:
                return Comparison(entry.key, "missing", entry.size, None, "")
            found = await _compare_object(entry, others[entry.key], source, destination, download=download)
            done, done_bytes = done + 1, done_bytes + (entry.size or 0)
            if report is not None:
                report(Progress(done, max(done, len(others)), done_bytes, total_bytes))
            return found

        total_bytes = sum([size or 0 for size in others.values()])
        seen: set[str] = set()
        listing: AsyncIterator[Entry] = source.scan()
        if not source.store.supports.listable:
            from aiozarr.transfer.node_tree import load_tree

            tree = await load_tree(engine, source.store, DEFAULT_SETTINGS, None)
            listing = tree.entries()
        async for keys in _batches(listing, wanted):
            batch = keys
            if not source.store.supports.listable:
                # Metadata name the objects that may be stored, without sizes.
                found_entries = await map_concurrently(
                    lambda entry: source.stat(entry.key), keys, concurrency=CONCURRENT_COMPARISONS
                )
                batch = [entry for entry in found_entries if entry is not None]
            for found in await map_concurrently(compare, batch, concurrency=CONCURRENT_COMPARISONS):
                seen.add(found.key)
                yield found
        if not seen:
            # A misspelled source is no empty one.
            raise NodeNotFoundError(f"nothing is stored at {src}", url=src)
        for key in sorted(others.keys() - seen):
            yield Comparison(key, "surplus", None, others[key], "")


async def _batches(listing: AsyncIterator[Entry], wanted: KeyFilter) -> AsyncGenerator[list[Entry], None]:
    batch: list[Entry] = []
    async for entry in listing:
        if wanted.matches(entry.key):
            batch.append(entry)
        if len(batch) >= 1000:
            yield batch
            batch = []
    if batch:
        yield batch


async def _compare_object(
    entry: Entry, other_size: int | None, source: ScheduledStore, destination: ScheduledStore, *, download: bool
) -> Comparison:
    from aiozarr.errors import StoreError

    def result(state: State, reason: str = "") -> Comparison:
        return Comparison(entry.key, state, entry.size, other_size, reason)

    if entry.size is not None and other_size is not None and entry.size != other_size:
        return result("differs", f"{bytes_text(entry.size)} and {bytes_text(other_size)}")
    if not download and entry.size is not None:
        return result("equal")
    try:
        position = await _first_difference(entry.key, source, destination)
    except StoreError as error:
        return result("error", str(error))
    return result("equal") if position is None else result("differs", f"from byte {position} on")


async def _first_difference(key: str, source: ScheduledStore, destination: ScheduledStore) -> int | None:
    """Return the start of the first part of an object that differs between both stores, or None."""
    from aiozarr.concurrency import gather_all
    from aiozarr.model import Range
    from aiozarr.stores.contract import byte_view

    start = 0
    while True:
        part = Range(start, PART_BYTES)
        values: list[Any] = await gather_all(
            [store.fetch(key, part, held=PART_BYTES) for store in (source, destination)]
        )
        one, other = [b"" if value is None else byte_view(value.data) for value in values]
        if one != other or None in values:
            same = next(
                (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            return start + same
        if len(one) < PART_BYTES:
            return None
        start += PART_BYTES
