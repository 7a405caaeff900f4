"""The command validate: checks metadata documents."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from aiozarr.cli.exit_codes import ERROR
from aiozarr.cli.output import Output, output_options, plain
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, store_options
from aiozarr.common.formatting import format_count

if TYPE_CHECKING:
    from aiozarr.hierarchy import Finding, ValidateReport


@click.command()
@click.argument("target")
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@store_options
@output_options
def validate(target: str, strict: bool, stores: TargetOptions, out: Output) -> None:
    """Check the metadata documents of TARGET and of all nodes below it. Chunks are not read.

    An error: the node cannot be read. A warning: it violates its format or differs from consolidated metadata, and
    aiozarr reads it nevertheless. A note: worth knowing. The exit status is 1 if there is an error.
    """
    from aiozarr.hierarchy import ValidateReport
    from aiozarr.hierarchy.internal import SEVERITIES

    report = ValidateReport()
    with iterated(_findings(target, stores.of(target), report)) as items:
        for finding in items:
            place = "/".join([part for part in (finding.path, finding.key) if part])
            member = f" {finding.member}" if finding.member else ""
            text = f"{finding.severity:<7} /{plain(place)}{member}: {plain(finding.message)}"
            out.record({"type": "finding", **asdict(finding)}, text)
    counts: dict[str, int] = {name: report.count(name) for name in SEVERITIES}
    if out.as_json:
        out.record({"type": "total", "nodes": report.nodes, **counts}, "")
    findings = [format_count(count, name) for name, count in counts.items()]
    out.say(f"{format_count(report.nodes, 'node')}: {', '.join(findings)}")
    if counts["error"] or (strict and counts["warning"]):
        sys.exit(ERROR)


async def _findings(target: str, options: StorageOptions, report: ValidateReport) -> AsyncGenerator[Finding, None]:
    from aiozarr.engine import current_engine, opened_store
    from aiozarr.hierarchy.internal import NodeAccess, validate_tree
    from aiozarr.settings import DEFAULT_SETTINGS

    engine = current_engine()
    assert engine is not None, "runs on the I/O thread"
    async with opened_store(target, options, DEFAULT_SETTINGS) as (store, _):
        try:
            found = validate_tree(NodeAccess(engine, store, "", DEFAULT_SETTINGS), report)
            async with aclosing(found):
                async for finding in found:
                    yield finding
        finally:
            await store.aclose()
