"""The command verify: reads and decodes every chunk."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from math import prod
from typing import TYPE_CHECKING

import click

from aiozarr.cli.exit_codes import ERROR
from aiozarr.cli.output import Output, bytes_text, output_options, plain
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, store_options

if TYPE_CHECKING:
    from aiozarr.cli.verification import BadObject, VerifyCounts
    from aiozarr.engine.progress import Progress


@click.command()
@click.argument("target")
@store_options
@output_options
def verify(target: str, stores: TargetOptions, out: Output) -> None:
    """Read and decode every stored chunk of the array TARGET, or of all arrays below the group TARGET.

    Checksums and shard indexes are checked. Bad chunks are printed by key; the exit status is then 1. It is 3 if there
    is no array.
    """
    from aiozarr.cli.verification import VerifyCounts
    from aiozarr.errors import NodeNotFoundError

    counts = VerifyCounts()
    with (
        out.progress("verifying") as progress,
        iterated(_bad_objects(target, stores.of(target), counts, progress)) as items,
    ):
        for bad in items:
            where = f" ({bad.range})" if bad.range else ""
            text = f"{bad.problem:<7} {plain(bad.key)}{where}: {plain(bad.error)}"
            out.record({"type": "bad" if bad.problem != "outside" else "outside", **asdict(bad)}, text)
    if not (counts.arrays or counts.bad):
        raise NodeNotFoundError(f"there is no array at or below {target}", url=target)
    if out.as_json:
        out.record({"type": "total", **asdict(counts)}, "")
    missing = "" if counts.missing is None else f", {counts.missing:,} not stored"
    out.say(
        f"{counts.arrays:,} arrays, {counts.objects:,} objects decoded to {bytes_text(counts.bytes)}: "
        f"{counts.bad:,} bad{missing}, {counts.outside:,} outside of a grid"
    )
    if counts.bad:
        sys.exit(ERROR)


async def _bad_objects(
    target: str, options: StorageOptions, counts: VerifyCounts, progress: Callable[[Progress], None] | None
) -> AsyncGenerator[BadObject, None]:
    from aiozarr.cli.verification import BadObject, verify_array
    from aiozarr.engine import bind_callback
    from aiozarr.engine.progress import Progress
    from aiozarr.errors import LimitError, MetadataError
    from aiozarr.hierarchy import Array
    from aiozarr.hierarchy.open import open as open_node

    report = bind_callback(progress)
    total = total_bytes = 0

    def update() -> None:
        if report is not None:
            report(Progress(counts.objects, max(total, counts.objects), counts.bytes, max(total_bytes, counts.bytes)))

    async with open_node(target, storage_options=options) as node:
        if isinstance(node, Array):
            total, total_bytes = _expected(node)
            async with aclosing(verify_array(node, node.path, counts, update)) as found:
                async for bad in found:
                    yield bad
            return
        levels = node._levels(None)
        async with aclosing(levels):
            async for batch in levels:
                for listed in batch:
                    if isinstance(listed.metadata, MetadataError | LimitError):
                        counts.bad += 1
                        key = listed.metadata.key or listed.name
                        yield BadObject(listed.name, key, "store", None, str(listed.metadata))
                        continue
                    child = await node.open(listed.name)
                    if not isinstance(child, Array):
                        continue
                    expected = _expected(child)
                    total, total_bytes = total + expected[0], total_bytes + expected[1]
                    async with aclosing(verify_array(child, listed.name, counts, update)) as found:
                        async for bad in found:
                            yield bad


def _expected(array: object) -> tuple[int, int]:
    from aiozarr.hierarchy import Array

    assert isinstance(array, Array)
    return prod(array._layout.grid.shape), array.nbytes
