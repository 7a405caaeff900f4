"""The command verify: reads and decodes every chunk."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from aiozarr.cli.exit_codes import ERROR
from aiozarr.cli.output import Output, bytes_text, output_options, plain
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, store_options
from aiozarr.common.formatting import format_count

if TYPE_CHECKING:
    from aiozarr.engine import Progress
    from aiozarr.hierarchy import BadObject, VerifyReport


@click.command()
@click.argument("target")
@store_options
@output_options
def verify(target: str, stores: TargetOptions, out: Output) -> None:
    """Read and decode every stored chunk of the array TARGET, or of all arrays below the group TARGET.

    Checksums and shard indexes are checked. Bad chunks are printed by key; the exit status is then 1. It is 3 if there
    is no array.

    Damage that can still be decoded is found only if the codecs store checksums. Without them, `aiozarr check
    --download` compares all bytes with those of a copy.
    """
    from aiozarr.errors import NodeNotFoundError
    from aiozarr.hierarchy import VerifyReport

    report = VerifyReport()
    with (
        out.progress("verifying") as progress,
        iterated(_bad_objects(target, stores.of(target), report, progress)) as items,
    ):
        for bad in items:
            where = f" ({bad.range})" if bad.range else ""
            text = f"{bad.problem:<7} {plain(bad.key)}{where}: {plain(bad.error)}"
            out.record({"type": "bad" if bad.problem != "outside" else "outside", **asdict(bad)}, text)
    if not (report.arrays or report.bad):
        raise NodeNotFoundError(f"there is no array at or below {target}", url=target)
    if out.as_json:
        found = {"bad": len(report.bad), "outside": len(report.outside), "bytes": report.bytes}
        totals = {"arrays": report.arrays, "objects": report.objects, "missing": report.missing, **found}
        out.record({"type": "total", **totals}, "")
    missing = "" if report.missing is None else f", {report.missing:,} not stored"
    out.say(
        f"{format_count(report.arrays, 'array')}, {format_count(report.objects, 'object')} decoded to "
        f"{bytes_text(report.bytes)}: "
        f"{len(report.bad):,} bad{missing}, {len(report.outside):,} outside of a grid"
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
