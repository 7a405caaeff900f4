"""The command convert."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from aiozarr.cli.command_group import option_text
from aiozarr.cli.copy_commands import RESUME_COMMAND, advising_resume
from aiozarr.cli.exit_codes import ERROR, PARTIAL
from aiozarr.cli.help import command
from aiozarr.cli.node_commands import with_array
from aiozarr.cli.output import Output, output_options
from aiozarr.cli.selections import name_selection, select_option
from aiozarr.cli.targets import ParsedType, TargetOptions, copy_store_options, run
from aiozarr.common.formatting import name_arguments

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from aiozarr.conversion import ConversionPlan, ConversionReport
    from aiozarr.hierarchy import Array

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the number of bytes of a text such as 512M or 2GiB; units are binary."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size, such as 512M or 2GiB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_lengths(text: str) -> Any:
    """Return lengths of chunks: `24,90,180` by position, `time=24,lat=-1` by name, "auto", or False for "none"."""
    if text in ("auto", "none"):
        return text if text == "auto" else False
    items = [item.strip() for item in text.split(",")]
    try:
        if any("=" in item for item in items):
            return {name.strip(): int(length) for name, _, length in [item.partition("=") for item in items]}
        return tuple([int(item) for item in items])
    except ValueError:
        raise ValueError(f"{text!r} is not a list of lengths, such as 24,90,180 or time=24,lat=-1") from None


def parse_codec(text: str) -> Any:
    """Return a codec: its name, or its JSON as an object."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else text
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from None


_lengths = ParsedType("LENGTHS", parse_lengths)


@command(
    "aiozarr convert --chunks time=-1,lat=10,lon=10 era5.zarr/t2m series.zarr",
    "aiozarr convert --zarr-format 3 old.zarr new.zarr",
)
@click.argument("src")
@click.argument("dst")
@click.option("--zarr-format", type=click.Choice(["1", "2", "3"]), help="The Zarr format of DST [default: as SRC].")
@click.option(
    "--chunks",
    type=_lengths,
    help="The chunk shape: 24,90,180 by position, time=24,lat=-1 by name (-1: the whole dimension), or auto "
    "[default: as SRC].",
)
@click.option("--shards", type=_lengths, help="The shard shape in the same forms, or none [default: as SRC].")
@click.option(
    "--codec",
    "codecs",
    type=ParsedType("CODEC", parse_codec),
    multiple=True,
    help="A codec by name or as JSON. Can be repeated [default: as SRC].",
)
@click.option("--dtype", help="The data type of DST, such as float32 [default: as SRC].")
@click.option(
    "--casting",
    type=click.Choice(["checked", "same_value", "same_kind", "unsafe"]),
    default="checked",
    show_default=True,
    help="Which conversions to --dtype are allowed.",
)
@select_option
@click.option(
    "--max-amplification",
    type=float,
    default=3.0,
    show_default=True,
    help="Use intermediate arrays if SRC would be read more than this many times.",
)
@click.option("--temporary", metavar="URL", help="Where to store intermediate arrays [default: below DST].")
@click.option(
    "--max-memory", type=ParsedType("SIZE", parse_size), help="Use at most this much memory per process, such as 512M."
)
@click.option("--workers", type=click.IntRange(1), help="Convert with this many processes.")
@click.option("--overwrite", is_flag=True, help="Delete everything that is stored at DST first.")
@click.option("--resume", is_flag=True, help="Continue an interrupted conversion, and skip its finished tasks.")
@click.option(
    "--on-error",
    type=click.Choice(["raise", "continue"]),
    default="raise",
    show_default=True,
    help="Stop at the first region that fails, or convert all others and exit with status 6.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Print the plan, and convert nothing.")
@copy_store_options
@output_options
def convert(
    src: str,
    dst: str,
    *,
    zarr_format: str | None,
    codecs: tuple[Any, ...],
    select: Any,
    workers: int | None,
    overwrite: bool,
    resume: bool,
    on_error: str,
    dry_run: bool,
    stores: TargetOptions,
    out: Output,
    **options: Any,
) -> None:
    """Write a copy of the array or group SRC to DST, with another format, chunks, shards, codecs or data type.

    Everything that no option changes is kept. A DST that contains objects is refused without --overwrite or --resume.
    The plan that --dry-run prints says how much is read, written and held in memory.
    """
    from aiozarr import conversion

    async def name_dimensions(array: Array) -> dict[str, str]:
        return name_selection(array, select)

    source = stores.of(src, "source")
    if isinstance(select, tuple):
        select = run(lambda: with_array(src, source, name_dimensions))
    keywords = {
        **options,
        "zarr_format": None if zarr_format is None else int(zarr_format),
        "codecs": list(codecs) or None,
        "select": select,
        "source_options": source,
        "destination_options": stores.of(dst, "destination"),
    }
    if dry_run:
        plan = run(lambda: conversion.plan_conversion(src, dst, **keywords))
        out.record(_plan_record(plan), *str(plan).split("\n"))
        return
    with _executor(workers) as executor, advising_resume(), out.progress("converting") as progress:
        report = run(
            lambda: conversion.convert(
                src,
                dst,
                **keywords,
                executor=executor,
                overwrite=overwrite,
                resume=resume,
                on_error=on_error,  # type: ignore[arg-type]  # click has checked it
                progress=progress,
            )
        )
    _print_report(report, out)


def _begin_worker() -> None:
    """Name options in the errors of this process, and end it when its parent ends, even if that is killed."""
    from multiprocessing import parent_process

    name_arguments(option_text)
    parent = parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(ERROR)

    Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def _executor(workers: int | None) -> Iterator[Executor | None]:
    """Yield a pool of processes, or None for this process."""
    if workers is None:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin_worker)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _plan_record(plan: ConversionPlan) -> dict[str, Any]:
    names = ("source", "destination", "arrays", "groups", "max_memory", "nbytes", "bytes_read", "requests")
    record = {"type": "plan", **{name: getattr(plan, name) for name in names}}
    return {**record, "notes": dict(getattr(plan, "notes", {})), "stages": [dict(vars(stage)) for stage in plan.stages]}


def _print_report(report: ConversionReport, out: Output) -> None:
    if out.as_json:
        record = {**vars(report), "notes": dict(report.notes)}
        record["failed"] = [{"region": region, "error": str(error)} for region, error in report.failed]
        out.record({"type": "report", **record}, "")
    out.say(*str(report).split("\n"))
    if report.failed:
        out.say(f"the converted chunks are kept; {RESUME_COMMAND}")
        for region, error in report.failed if out.quiet else ():
            out.complain(f"{region}: {error}")
        sys.exit(PARTIAL)
