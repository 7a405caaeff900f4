"""Print the cost of each stage of a read, and the shares of whole reads: `python -m benchmarks.stages`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks.layouts import KIB, MIB
from benchmarks.stages import decode, plan, scatter, schedule, share, transport
from benchmarks.stages.figures import Figure
from benchmarks.table import console_of, rows_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*", help="plan, schedule, transport, decode, scatter, share (default: all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--tiny", action="store_true", help="hardly any work: whether it runs at all")
    parser.add_argument("--python-server", action="store_true", help="use the server in Python although nginx is there")
    args = parser.parse_args()
    # Of each: the full amount, a tenth or so, and next to nothing.
    size = 2 if args.tiny else 1 if args.quick else 0
    runs = (5, 3, 1)[size]
    python = args.python_server
    measured: dict[str, Callable[[], list[Figure]]] = {
        "plan": lambda: plan.figures(((100, 10_000, 1_000_000), (100, 10_000), (8,))[size], min(runs, 3)),
        "schedule": lambda: schedule.figures((50_000, 10_000, 50)[size], runs),
        "transport": lambda: transport.figures(
            (12_800, 3_200, 8)[size], (16 * MIB, 4 * MIB, 16 * KIB)[size], runs, python=python
        ),
        "decode": lambda: decode.figures((MIB, MIB, 4 * KIB)[size], (64, 16, 1)[size], runs),
        "scatter": lambda: scatter.figures((64, 32, 8)[size], runs),
    }
    unknown = set(args.stages) - {*measured, "share"}
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}")
    console = console_of()
    figures = [each for name, make in measured.items() if not args.stages or name in args.stages for each in make()]
    if figures:
        console.print(rows_table("what stages cost", ("stage", "figure", "unit"), [each.row() for each in figures]))
    if not args.stages or "share" in args.stages:
        rows = share.rows((256 * MIB, 32 * MIB, 256 * KIB)[size], 0.02 if size < 2 else 0.0, python=python)
        console.print(rows_table("where the CPU time of a read goes", share.HEADINGS, rows))


if __name__ == "__main__":
    main()
