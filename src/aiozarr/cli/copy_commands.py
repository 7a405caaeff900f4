"""The commands cp and sync: copy objects as they are stored, from any store to any other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from aiozarr.cli.exit_codes import PARTIAL
from aiozarr.cli.help import command
from aiozarr.cli.object_commands import find_object
from aiozarr.cli.output import Output, output_options
from aiozarr.cli.targets import (
    StorageOptions,
    TargetOptions,
    copy_store_options,
    exclude_option,
    include_option,
    key_in,
    parent_and_key,
    run,
)
from aiozarr.common.formatting import readable_bytes
from aiozarr.errors import CopyError, NodeNotFoundError, NodeTypeError

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress
    from aiozarr.model import Entry
    from aiozarr.settings import Settings
    from aiozarr.transfer import CopyReport

OBJECT_OPTIONS = ("overwrite", "resume", "verify", "delete", "skip_equal", "size_only", "dry_run")
"""The options that apply to the copy of a single object."""
RESUME_COMMAND = "the same command with --resume continues"


def _copy_options(function: Any) -> Any:
    for option in reversed(_COPY_OPTIONS):
        function = option(function)
    return function


_COPY_OPTIONS = (
    include_option,
    exclude_option,
    click.option(
        "--resume", is_flag=True, help="Continue an interrupted copy, and skip the objects that it has copied."
    ),
    click.option(
        "--verify",
        type=click.Choice(["size", "checksum", "none"]),
        default="size",
        show_default=True,
        help="Compare the size of each copied object, or with checksum also all its bytes: through the MD5 that DST "
        "reports, or by reading them back.",
    ),
    click.option("-n", "--dry-run", is_flag=True, help="List what would be copied and deleted, and write nothing."),
    click.option(
        "--on-error",
        type=click.Choice(["raise", "continue"]),
        default="raise",
        show_default=True,
        help="Stop at the first object that fails, or copy all others and exit with status 6.",
    ),
    click.option(
        "--max-requests",
        type=click.IntRange(1),
        help="Send at most this many requests at a time [default: adapted to the store].",
    ),
)


@command("aiozarr cp s3://bucket/era5.zarr era5.zarr", "aiozarr cp --verify checksum era5.zarr/t2m t2m.zarr")
@click.argument("src")
@click.argument("dst")
@click.option(
    "-r", "--recursive", is_flag=True, help="Has no effect: stores are always copied whole, unlike with cp(1)."
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace objects at DST that have the same key, and delete chunks and metadata documents of the copied arrays "
    "and groups that SRC does not have. Everything else at DST is kept.",
)
@_copy_options
@copy_store_options
@output_options
def cp(src: str, dst: str, recursive: bool, overwrite: bool, **options: Any) -> None:
    """Copy the store, array, group or object SRC to DST.

    DST becomes the copy itself: 'cp era5.zarr copy.zarr' writes copy.zarr/zarr.json. Objects are copied as they are
    stored. Each appears whole or not at all, and metadata documents are written last, so an interrupted copy never
    looks complete. Consolidated metadata of the groups above DST are updated.

    A DST that contains objects is refused without --overwrite or --resume.
    """
    _copy(src, dst, overwrite=overwrite, delete=False, skip_equal=False, size_only=False, **options)


@command("aiozarr sync s3://bucket/era5.zarr era5.zarr", "aiozarr sync --delete --dry-run era5.zarr mirror.zarr")
@click.argument("src")
@click.argument("dst")
@click.option("--delete", is_flag=True, help="Delete everything at DST that SRC does not have.")
@click.option("--size-only", is_flag=True, help="Treat chunks of equal size as equal, without comparing their bytes.")
@_copy_options
@copy_store_options
@output_options
def sync(src: str, dst: str, delete: bool, size_only: bool, **options: Any) -> None:
    """Copy everything from SRC to DST that has changed, and with --delete make DST equal to SRC.

    Objects are skipped if they are equal by size and MD5, by the bytes of local files, or by the versions that an
    earlier sync recorded at DST. Objects at DST with the same key are replaced, and chunks of copied arrays that SRC
    does not store are deleted. Everything else at DST is kept without --delete. Nothing is deleted if SRC is empty or
    missing.
    """
    _copy(src, dst, overwrite=True, delete=delete, skip_equal=True, size_only=size_only, **options)


def _copy(
    src: str,
    dst: str,
    *,
    verify: str,
    max_requests: int | None,
    stores: TargetOptions,
    out: Output,
    **options: Any,
) -> None:
    from aiozarr.settings import Settings

    settings = Settings() if max_requests is None else Settings(max_requests=max_requests)
    source, destination = stores.of(src, "source"), stores.of(dst, "destination")
    options["verify"] = None if verify == "none" else verify
    try:
        with advising_resume():
            report = _copy_store(src, dst, options, source, destination, settings, out)
    except CopyError as error:
        if error.failed:
            error.add_note(f"the copied objects are kept; {RESUME_COMMAND}")
        elif "--overwrite" in str(error):
            error.add_note("to bring an existing copy up to date, use sync")
        raise
    _print_report(report, src, dst, out)
    if report.failed:
        out.say(f"the copied objects are kept; {RESUME_COMMAND}")
        sys.exit(PARTIAL)


@contextmanager
def advising_resume() -> Iterator[None]:
    """Say in the message of an interruption that --resume continues the command."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.args = (f"interrupted; {RESUME_COMMAND}",)
        raise


def _copy_store(
    src: str,
    dst: str,
    options: Mapping[str, Any],
    source: StorageOptions,
    destination: StorageOptions,
    settings: Settings,
    out: Output,
) -> CopyReport:
    from aiozarr.transfer import copy

    def copy_object(found: Any) -> CopyReport:
        is_folder = not parent_and_key(dst)[1] or os.path.isdir(dst)
        return run(lambda: _copy_object(src, found, dst, is_folder, options, source, destination, settings))

    is_archive = src.lower().endswith(".zip")
    if os.path.isfile(src) and not is_archive:
        return copy_object(run(lambda: find_object(src, source)))
    try:
        with out.progress(_title) as progress:
            return run(
                lambda: copy(
                    src,
                    dst,
                    **options,
                    progress=progress,
                    source_options=source,
                    destination_options=destination,
                    settings=settings,
                )
            )
    except (NodeNotFoundError, NodeTypeError, CopyError) as error:
        # Look for an object only now, because that takes a request more. An archive without a node, or with a damaged
        # directory, is not copied as an object, because that would look like success.
        has_failures = isinstance(error, CopyError) and bool(error.failed)
        if is_archive or has_failures or (found := run(lambda: find_object(src, source))) is None:
            raise
    return copy_object(found)


def _title(progress: Progress) -> str:
    return "copying" if progress.bytes_done else "comparing"


async def _copy_object(
    src: str,
    entry: Entry,
    dst: str,
    is_folder: bool,
    options: Mapping[str, Any],
    source: StorageOptions,
    destination: StorageOptions,
    settings: Settings,
) -> CopyReport:
    """Copy one object to `dst`, or into it."""
    from aiozarr.cli.targets import opened
    from aiozarr.engine import current_engine
    from aiozarr.transfer.copy import copy_one
    from aiozarr.transfer.copy_rules import CopyRules

    rules = CopyRules(**{name: options[name] for name in OBJECT_OPTIONS})
    location, name = parent_and_key(dst)
    engine = current_engine()
    assert engine is not None, "runs on the I/O thread"

    async with (
        opened(parent_and_key(src)[0], source, settings) as origin,
        opened(dst if is_folder else location, destination, settings) as target,
    ):
        key = entry.key.rpartition("/")[2] if is_folder else key_in(target.store, dst, name)
        return await copy_one(engine, origin.store, entry, target.store, key, rules, settings)


def _print_report(report: CopyReport, src: str, dst: str, out: Output) -> None:
    from aiozarr.transfer.report import format_failures

    print_planned(report.planned, out)
    if out.as_json:
        record = {name: getattr(report, name) for name in REPORT_NAMES}
        record["failed"] = [{"key": key, "error": str(error)} for key, error in report.failed]
        out.record({"type": "report", "source": src, "destination": dst, **record}, "")
    if out.quiet:
        for line in format_failures(report.failed):
            out.complain(line.strip())
    if report.skipped and not (report.objects or report.deleted or report.failed):
        out.say(f"{dst} already has all {report.skipped:,} objects")
    elif report.objects != 1 or any([getattr(report, name) for name in MORE_THAN_AN_OBJECT]):
        out.say(*str(report).split("\n"))
    else:
        out.say(f"{src} -> {dst}: {readable_bytes(report.bytes)}")


# If a copy of one object has any of these, its report says more than its size.
MORE_THAN_AN_OBJECT = ("metadata_documents", "dry_run", "failed", "changed", "skipped", "deleted", "missing_chunks")
REPORT_NAMES = (
    *("objects", "bytes", "metadata_documents", "failed", "changed", "folder_markers", "skipped", "deleted"),
    *("missing_chunks", "server_side", "dry_run", "seconds", "requests"),
)


def print_planned(planned: Iterable[tuple[str, str]], out: Output) -> None:
    """Print a line for each action of a dry run."""
    for action, key in planned:
        out.record({"type": "object", "action": action, "key": key}, f"{action:<6} {key}")
