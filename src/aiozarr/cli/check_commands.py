"""The commands diff, verify and validate: compare two stores, decode chunks, check metadata documents."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from aiozarr.cli import targets
from aiozarr.cli.exit_codes import ERROR
from aiozarr.cli.help import command
from aiozarr.cli.output import Output, output_options
from aiozarr.cli.targets import StorageOptions, TargetOptions
from aiozarr.common.formatting import format_count, readable_bytes

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress
    from aiozarr.engine import ScheduledStore
    from aiozarr.hierarchy import BadObject, Finding, ValidateReport, VerifyReport
    from aiozarr.model import Entry
    from aiozarr.transfer.copy_rules import KeyFilter

State = Literal["equal", "differs", "missing", "surplus", "error"]
SIGNS: dict[State, str] = {"equal": "=", "differs": "*", "missing": "+", "surplus": "-", "error": "!"}
"""The signs of `rclone check --combined`: + is in the source only, - is in the destination only."""

CONCURRENT_COMPARISONS = 32
PART_BYTES = 8 << 20


class Comparison(NamedTuple):
    """The result for one key: its state, and the sizes on both sides, None without an object."""

    key: str
    state: State
    source_size: int | None
    destination_size: int | None
    reason: str


@command(
    "aiozarr diff s3://bucket/era5.zarr era5.zarr", "aiozarr diff --download --include 't2m/*' era5.zarr copy.zarr"
)
@click.argument("src")
@click.argument("dst")
@click.option("--download", is_flag=True, help="Compare all bytes of each object, not only sizes.")
@click.option("--one-way", is_flag=True, help="Ignore objects that only DST has.")
@targets.include_option
@targets.exclude_option
@targets.copy_store_options
@output_options
def diff(
    src: str,
    dst: str,
    download: bool,
    one_way: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    stores: TargetOptions,
    out: Output,
) -> None:
    """Compare the objects below SRC and DST by key and size, or with --download byte by byte.

    Each difference is a line that begins with one of rclone's signs: * for objects that differ, + for objects that only
    SRC has, - for objects that only DST has, and ! for objects that cannot be read. With -v equal objects are listed
    too, with the sign =. The exit status is 1 if there is a difference.

    If the server of SRC cannot list objects, as most web servers, the keys are derived from the metadata of SRC.
    """
    counts: dict[str, int] = dict.fromkeys(SIGNS, 0)

    from aiozarr.transfer.copy_rules import KeyFilter

    wanted = KeyFilter(include, exclude)
    with (
        out.progress("comparing") as progress,
        targets.iterated(_compare(src, dst, stores, wanted, download=download, progress=progress)) as items,
    ):
        for each in items:
            if one_way and each.state == "surplus":
                continue
            counts[each.state] += 1
            if each.state != "equal" or out.verbose:
                reason = f": {each.reason}" if each.reason else ""
                record = {"type": "object", **each._asdict()}
                out.record(record, f"{SIGNS[each.state]} {each.key}{reason}")
    if out.as_json:
        out.record({"type": "total", **dict(counts.items())}, "")
    texts = ("equal", "different", "only in SRC", "only in DST", "unreadable")
    out.say(", ".join([f"{number:,} {text}" for number, text in zip(counts.values(), texts, strict=True)]))
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
    """Yield a comparison for each key. The listing of the destination is held in memory.

    Raises:
        NodeNotFoundError: nothing is stored at the source.
    """
    from aiozarr.common.concurrency import map_concurrently
    from aiozarr.common.progress import Progress
    from aiozarr.engine import bind_callback, current_engine
    from aiozarr.errors import NodeNotFoundError
    from aiozarr.transfer.journal import is_journal_key

    report = bind_callback(progress)
    async with (
        targets.opened(src, stores.of(src, "source")) as source,
        targets.opened(dst, stores.of(dst, "destination")) as destination,
    ):
        targets.check_listable(destination.store)
        others = {
            entry.key: entry.size
            async for entry in destination.scan()
            if wanted.matches(entry.key) and not is_journal_key(entry.key)
        }
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
        is_listable = source.store.supports.listable
        listing = source.scan(faults=True)
        if not is_listable:
            from aiozarr.transfer.node_tree import load_tree

            engine = current_engine()
            assert engine is not None, "runs on the I/O thread"
            listing = (await load_tree(engine, source.store, source.settings, None)).entries()
        async for entries in targets.batched(listing):
            for entry in entries:
                if entry.fault and wanted.may_match_at(entry.key):
                    seen.add(entry.key)
                    yield Comparison(entry.key, "error", None, others.get(entry.key), entry.fault)
            batch = [
                entry
                for entry in entries
                if not (entry.fault or is_journal_key(entry.key)) and wanted.matches(entry.key)
            ]
            if not is_listable:
                # The metadata give the keys of all objects that may be stored, without sizes.
                stats = await map_concurrently(
                    lambda entry: source.stat(entry.key), batch, concurrency=CONCURRENT_COMPARISONS
                )
                batch = [entry for entry in stats if entry is not None]
            for found in await map_concurrently(compare, batch, concurrency=CONCURRENT_COMPARISONS):
                seen.add(found.key)
                yield found
        if not seen:
            # A misspelled source must not count as an empty source.
            raise NodeNotFoundError(f"nothing is stored at {src}", url=src)
        for key in sorted(others.keys() - seen):
            yield Comparison(key, "surplus", None, others[key], "")


async def _compare_object(
    entry: Entry, other_size: int | None, source: ScheduledStore, destination: ScheduledStore, *, download: bool
) -> Comparison:
    from aiozarr.errors import StoreError

    def result(state: State, reason: str = "") -> Comparison:
        return Comparison(entry.key, state, entry.size, other_size, reason)

    if entry.size is not None and other_size is not None and entry.size != other_size:
        return result("differs", f"{readable_bytes(entry.size)} and {readable_bytes(other_size)}")
    if not download and entry.size is not None:
        return result("equal")
    try:
        position = await _first_difference(entry.key, source, destination)
    except StoreError as error:
        return result("error", str(error))
    return result("equal") if position is None else result("differs", f"from byte {position} on")


async def _first_difference(key: str, source: ScheduledStore, destination: ScheduledStore) -> int | None:
    """Return the position of the first byte of an object that differs between both stores, or None."""
    from aiozarr.common.concurrency import gather_all
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


@command("aiozarr verify s3://bucket/era5.zarr", "aiozarr verify --json era5.zarr/t2m")
@click.argument("target")
@targets.store_options
@output_options
def verify(target: str, stores: TargetOptions, out: Output) -> None:
    """Read and decode every stored chunk of the array TARGET, or of all arrays in the group TARGET.

    Checksums and shard indexes are checked too. Each damaged chunk is a line with its key. The exit status is 1 if
    there is one, and 3 if there is no array.

    Damage that still decodes is only found if the codecs store checksums. Without them, compare it with a copy:
    'aiozarr diff --download'.
    """
    from aiozarr.errors import NodeNotFoundError
    from aiozarr.hierarchy import VerifyReport

    report = VerifyReport()
    with (
        out.progress("verifying") as progress,
        targets.iterated(_bad_objects(target, stores.of(target), report, progress)) as items,
    ):
        for bad in items:
            where = f" ({bad.range})" if bad.range else ""
            text = f"{bad.problem:<7} {bad.key}{where}: {bad.error}"
            out.record({"type": "bad" if bad.problem != "outside" else "outside", **asdict(bad)}, text)
    if not (report.arrays or report.bad):
        raise NodeNotFoundError(f"there is no array at or below {target}", url=target)
    if out.as_json:
        found = {"bad": len(report.bad), "outside": len(report.outside), "other": report.other, "bytes": report.bytes}
        totals = {"arrays": report.arrays, "objects": report.objects, "missing": report.missing, **found}
        out.record({"type": "total", **totals}, "")
    missing = "" if report.missing is None else f", {report.missing:,} not stored"
    other = f", {format_count(report.other, 'other object')}" if report.other else ""
    out.say(
        f"{format_count(report.arrays, 'array')}, {format_count(report.objects, 'object')} decoded to "
        f"{readable_bytes(report.bytes)}: "
        f"{len(report.bad):,} bad{missing}, {len(report.outside):,} outside the grid{other}"
    )
    if report.bad:
        sys.exit(ERROR)


async def _bad_objects(
    target: str, options: StorageOptions, report: VerifyReport, progress: Callable[[Progress], None] | None
) -> AsyncGenerator[BadObject, None]:
    from aiozarr.engine import bind_callback
    from aiozarr.hierarchy.internal import Verification, open_node

    async with (
        open_node(target, storage_options=options) as node,
        aclosing(Verification(node, report, bind_callback(progress)).run()) as found,
    ):
        async for bad in found:
            yield bad


@command("aiozarr validate s3://bucket/era5.zarr", "aiozarr validate --strict era5.zarr")
@click.argument("target")
@click.option("--strict", is_flag=True, help="Exit with status 1 for warnings too.")
@targets.store_options
@output_options
def validate(target: str, strict: bool, stores: TargetOptions, out: Output) -> None:
    """Check the metadata documents of TARGET and of all arrays and groups below it. No chunk is read.

    An error means that the array or group cannot be read. A warning means that aiozarr reads it although it violates
    its format or differs from consolidated metadata. A note is only information. The exit status is 1 if there is an
    error.
    """
    from aiozarr.hierarchy import ValidateReport
    from aiozarr.hierarchy.internal import SEVERITIES

    report = ValidateReport()
    with targets.iterated(_findings(target, stores.of(target), report)) as items:
        for finding in items:
            place = "/".join([part for part in (finding.path, finding.key) if part])
            member = f" {finding.member}" if finding.member else ""
            text = f"{finding.severity:<7} /{place}{member}: {finding.message}"
            out.record({"type": "finding", **asdict(finding)}, text)
    counts: dict[str, int] = {name: report.count(name) for name in SEVERITIES}
    if out.as_json:
        out.record({"type": "total", "nodes": report.nodes, **counts}, "")
    findings = [format_count(count, name) for name, count in counts.items()]
    out.say(f"{format_count(report.nodes, 'node')}: {', '.join(findings)}")
    if counts["error"] or (strict and counts["warning"]):
        sys.exit(ERROR)


async def _findings(target: str, options: StorageOptions, report: ValidateReport) -> AsyncGenerator[Finding, None]:
    from aiozarr.engine import current_engine
    from aiozarr.hierarchy.internal import NodeAccess, validate_tree

    async with targets.opened(target, options) as store:
        engine = current_engine()
        assert engine is not None, "runs on the I/O thread"
        async with aclosing(validate_tree(NodeAccess(engine, store.store, "", store.settings), report)) as found:
            async for finding in found:
                yield finding
