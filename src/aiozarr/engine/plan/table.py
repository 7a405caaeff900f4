"""A plan as a table of plain text: what is read, what it costs, and the first of its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiozarr.model import ByteRange, Range, Suffix

if TYPE_CHECKING:
    from aiozarr.engine.plan.plan import Plan

ROWS = 10
"""Requests that a table shows."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One request of a plan; of a plan of bounds, all requests for the chunks of one shard.

    Attributes:
        round: 1, or 2 where an answer of the first round says what to ask for.
        key: the stored object.
        range: the bytes of it; None: all of it, or, in the second round of a plan of bounds, what its index will say.
        chunks: chunks that they hold of those that are read; 0 for an index.
        bytes: how many bytes come; an upper bound in a plan of bounds.
        bytes_wanted: those of them that are needed.
        requests: how many requests that is; an upper bound in a plan of bounds.
        stored: whether there is such an object; None in a plan of bounds, which does not know.
    """

    round: int
    key: str
    range: ByteRange | None
    chunks: int
    bytes: int
    bytes_wanted: int
    requests: int = 1
    stored: bool | None = None


def table(plan: Plan, rows: Sequence[PlanRow]) -> str:
    """Return the plan in words and its first requests in rows."""
    lines = [_title(plan), _objects(plan), _cost(plan)]
    if not plan.chunks:
        return "\n".join([lines[0], "nothing is read: no requests"])
    if rows:
        lines += _columns(plan, rows)
    more = plan.requests - sum([row.requests for row in rows])
    if more > 0:
        what = _count(more, "request") if plan.exact else f"at most {_count(more, 'request')}"
        lines.append(f"... {what} more" if rows else f"... {what}, not listed here")
    return "\n".join(lines)


def _title(plan: Plan) -> str:
    shape = "" if plan.shape is None else f" a selection of shape {plan.shape}"
    of = f" of {plan.array}" if plan.array else ""
    what = f"{shape}{of}".strip() or "a read"
    return f"{what}: {'exact' if plan.exact else 'bounds, without a look at what is stored'}"


def _objects(plan: Plan) -> str:
    if plan.sharded:
        touched = f"{_count(plan.inner_chunks, 'chunk')} in {_count(plan.chunks, 'shard')}"
    else:
        touched = _count(plan.chunks, "chunk")
    if not plan.missing:
        return touched
    return f"{touched}, {plan.missing:,} of {'these shards' if plan.sharded else 'them'} not stored"


def _cost(plan: Plan) -> str:
    if plan.exact:
        over = f", {plan.over_read:,} read over gaps" if plan.over_read else ""
        return f"{_count(plan.requests, 'request')}, {_count(plan.bytes, 'byte')}: {plan.bytes_wanted:,} wanted{over}"
    least = "" if plan.min_requests == plan.requests else f"{plan.min_requests:,} to "
    return f"{least}{_count(plan.requests, 'request')}, at most {_count(plan.bytes, 'byte')}"


def _columns(plan: Plan, rows: Sequence[PlanRow]) -> list[str]:
    cells = [("round", "key", "range", "chunks", "bytes", ""), *[_cells(row, exact=plan.exact) for row in rows]]
    widths = [max([len(line[column]) for line in cells]) for column in range(5)]
    return [
        f"{number:>{widths[0]}}  {key:<{widths[1]}}  {part:<{widths[2]}}  "
        f"{chunks:>{widths[3]}}  {size:>{widths[4]}}  {note}".rstrip()
        for number, key, part, chunks, size, note in cells
    ]


def _cells(row: PlanRow, *, exact: bool) -> tuple[str, str, str, str, str, str]:
    match row.range:
        case Range(start, None):
            part = f"{start}-"
        case Range(start, int(length)):
            part = f"{start}-{start + length - 1}"
        case Suffix(length):
            part = f"last {length}"
        case _:
            part = "whole" if row.round == 1 else "by the index"
    size = f"{row.bytes:,}" if exact else f"<= {row.bytes:,}"
    note = "not stored" if row.stored is False else f"in {row.requests:,} requests" if row.requests > 1 else ""
    if note and row.stored is None:
        note = f"in at most {row.requests:,} requests"
    return str(row.round), row.key, part, f"{row.chunks:,}" if row.chunks else "index", size, note


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
