"""Ranges of one object that several callers want in one turn of the loop, fetched by common requests."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiozarr.engine.request.bulk import Bulk, BulkFetch, Wanted
from aiozarr.engine.request.terms import merging_terms
from aiozarr.model import Range, Version
from aiozarr.schedule.coalesce import Economy, coalesce
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.read.job import ReadJob

MAX_WAITING = 128
"""Ranges that one read has handed in and that are not sent for yet; it begins no more before."""


@dataclass
class _Group:
    """What is wanted of one version of one object, on equal terms."""

    store: Store
    key: str
    version: Version | None
    economy: Economy
    wanted: list[Wanted] = field(default_factory=list)
    bulks: list[Bulk] = field(default_factory=list)


class Gathering:
    """Collects the ranges of all callers until the turn is over, then cuts the requests. Lives on the I/O loop.

    A request is sent in the turn, by the limits and to the account of one of those who want something of it. Whoever
    leaves afterwards leaves it to the others; it ends with the last of them.
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}
        self._jobs: dict[ReadJob, None] = {}

    def add(
        self, job: ReadJob, store: Store, key: str, object_token: Hashable, version: Version | None, of: list[Wanted]
    ) -> None:
        """Fetch the ranges `of` the object; `object_token` names it and its version."""
        self._group(job, store, key, object_token, version, len(of)).wanted += of

    def add_bulk(self, bulk: Bulk, store: Store, key: str, version: Version | None) -> None:
        """Fetch the chunks of `bulk`."""
        count = len(bulk.positions)
        self._group(bulk.job, store, key, bulk.object_token, version, count).bulks.append(bulk)

    def _group(
        self, job: ReadJob, store: Store, key: str, object_token: Hashable, version: Version | None, count: int
    ) -> _Group:
        terms = (object_token, merging_terms(job.settings))
        group = self._groups.get(terms)
        if group is None:
            group = self._groups[terms] = _Group(store, key, version, job.economy)
        if not self._jobs:
            asyncio.get_running_loop().call_soon(self._send)
        self._jobs[job] = None
        job.gathering += count
        return group

    def _send(self) -> None:
        groups, self._groups = self._groups, {}
        jobs, self._jobs = self._jobs, {}
        owners: dict[ReadJob, None] = {}
        for job in jobs:
            if job.gathering >= MAX_WAITING:
                owners[job] = None
            job.gathering = 0
        for group in groups.values():
            owners.update(dict.fromkeys(_send_group(group)))
        for job in owners:
            job.proceed()


def _send_group(group: _Group) -> Sequence[ReadJob]:
    """Cut the requests for what is still wanted; return whose they are."""
    owners: list[ReadJob] = []
    # What was parted is for those who stay, whoever has left.
    bulks = [bulk for bulk in group.bulks if bulk.wanted is not None or not bulk.given_up]
    if len(bulks) == 1 and bulks[0].wanted is None and not group.wanted:
        _send_bulk(group, bulks[0])
        return [bulks[0].job]
    for bulk in bulks:
        group.wanted += bulk.part_all()
    wanted = [each for each in group.wanted if each.flight.sinks]
    for merged in coalesce([(each.start, each.length) for each in wanted], group.economy):
        members = [wanted[member] for member in merged.members]
        owner: ReadJob = members[0].flight.sinks[0].origin
        for flight, start, length in members:
            flight.start = start - merged.start
            flight.stop = flight.start + length
            for number, sink in enumerate(flight.sinks):
                # Who has joined a chunk has counted it as another's; so it is, but for the request's owner.
                sink.origin.sharing.shared += (number == 0) - (sink.origin is owner)
        ranges = Range(merged.start, merged.length)
        flights = [each.flight for each in members]
        fetch = owner.fetch(group.store, group.key, ranges, flights, merged.length, group.version)
        owner.push(fetch, owner.now())
        owners.append(owner)
    return owners


def _send_bulk(group: _Group, bulk: Bulk) -> None:
    """Cut the requests for chunks that one reader alone wants."""
    job = bulk.job
    merged = coalesce(list(zip(bulk.starts, bulk.lengths, strict=True)), group.economy)
    requests = [
        BulkFetch(bulk, group.store, group.key, Range(each.start, each.length), each.members, group.version)
        for each in merged
    ]
    bulk.send(requests)
    for request in requests:
        job.push(request, job.now())
