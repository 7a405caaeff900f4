"""The route of an object, as a table: which stores, which policy, which object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.engine.copy.copy_route import CopyFacts, CopyPolicy, CopyRoute, copy_route
from aiozarr.model import Entry, Version
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore
from tests.support.servers.gcs_server import GcsServer

MIB = 1 << 20
VERSION = Version('"1"')
CLOUD_TO_DISK = CopyFacts(CopyPolicy(), sends_nowait=True, pins_versions=True, writes_files=True, blocks_writer=True)
DISK_TO_CLOUD = CopyFacts(
    CopyPolicy(), reads_files=True, blocks=True, pins_versions=True, can_upload=lambda size: size <= 100 * MIB
)
DISK_TO_DISK = replace(DISK_TO_CLOUD, can_upload=None, writes_files=True, blocks_writer=True)
CLOUD_TO_CLOUD = CopyFacts(CopyPolicy(), sends_nowait=True, pins_versions=True, can_upload=lambda _: True)
ONE_CLOUD = replace(CLOUD_TO_CLOUD, copies_on_server=True)
CHECKSUM, IF_ABSENT, BY_METADATA = CopyPolicy("checksum"), CopyPolicy(if_absent=True), CopyPolicy(may_be_missing=True)


def entry(size: int | None, version: Version | None = VERSION) -> Entry:
    return Entry("k", size, version)


@pytest.mark.parametrize(
    ("facts", "policy", "copied", "route"),
    [
        (ONE_CLOUD, CopyPolicy(), entry(1), CopyRoute.SERVER),
        (ONE_CLOUD, CHECKSUM, entry(100 * MIB), CopyRoute.SERVER),
        (ONE_CLOUD, IF_ABSENT, entry(1), CopyRoute.WHOLE),  # servers copy without conditions
        (ONE_CLOUD, CopyPolicy(), entry(1, None), CopyRoute.WHOLE),
        (ONE_CLOUD, CopyPolicy(), entry(None), CopyRoute.WHOLE),
        (CLOUD_TO_CLOUD, CopyPolicy(), entry(1), CopyRoute.WHOLE),
        (CLOUD_TO_CLOUD, CopyPolicy(), entry(100 * MIB), CopyRoute.WHOLE),
        (CLOUD_TO_DISK, CopyPolicy(), entry(0), CopyRoute.QUEUED),
        (CLOUD_TO_DISK, CHECKSUM, entry(8 * MIB), CopyRoute.QUEUED),
        (CLOUD_TO_DISK, CopyPolicy(None), entry(8 * MIB + 1), CopyRoute.PARTS),
        (CLOUD_TO_DISK, IF_ABSENT, entry(8 * MIB + 1), CopyRoute.PARTS),
        (CLOUD_TO_DISK, CHECKSUM, entry(8 * MIB + 1), CopyRoute.WHOLE),
        (CLOUD_TO_DISK, CopyPolicy(), entry(8 * MIB + 1, None), CopyRoute.WHOLE),
        (CLOUD_TO_DISK, CopyPolicy(), entry(8 * MIB + 1, Version('W/"1"')), CopyRoute.WHOLE),
        (replace(CLOUD_TO_DISK, pins_versions=False), CopyPolicy(), entry(8 * MIB + 1), CopyRoute.WHOLE),
        (replace(CLOUD_TO_DISK, part_bytes=MIB), CopyPolicy(), entry(MIB + 1), CopyRoute.PARTS),
        (replace(CLOUD_TO_DISK, is_observed=True), CopyPolicy(), entry(1), CopyRoute.WHOLE),
        (replace(CLOUD_TO_DISK, is_observed=True), CopyPolicy(), entry(8 * MIB + 1), CopyRoute.PARTS),
        (CLOUD_TO_DISK, IF_ABSENT, entry(1), CopyRoute.WHOLE),
        (CLOUD_TO_DISK, CopyPolicy(), entry(None), CopyRoute.WHOLE),
        (CLOUD_TO_DISK, BY_METADATA, entry(None), CopyRoute.QUEUED),
        (replace(CLOUD_TO_DISK, writes_files=False), CopyPolicy(), entry(8 * MIB + 1), CopyRoute.WHOLE),
        (replace(CLOUD_TO_DISK, writes_files=False), CopyPolicy(), entry(1), CopyRoute.QUEUED),
        (DISK_TO_CLOUD, CopyPolicy(), entry(MIB), CopyRoute.BATCH),
        (DISK_TO_CLOUD, CopyPolicy(), entry(MIB + 1), CopyRoute.STREAMED),
        (DISK_TO_CLOUD, IF_ABSENT, entry(MIB + 1), CopyRoute.STREAMED),
        (DISK_TO_CLOUD, CHECKSUM, entry(100 * MIB), CopyRoute.STREAMED),
        (DISK_TO_CLOUD, CopyPolicy(), entry(100 * MIB + 1), CopyRoute.WHOLE),
        (replace(DISK_TO_CLOUD, can_upload=None), CopyPolicy(), entry(MIB + 1), CopyRoute.BATCH),
        (replace(DISK_TO_CLOUD, reads_files=False), CopyPolicy(), entry(MIB + 1), CopyRoute.BATCH),
        (DISK_TO_DISK, CopyPolicy(), entry(8 * MIB), CopyRoute.BATCH),
        (DISK_TO_DISK, CopyPolicy(), entry(8 * MIB + 1), CopyRoute.PARTS),
        (DISK_TO_DISK, IF_ABSENT, entry(1), CopyRoute.WHOLE),
        (DISK_TO_DISK, CopyPolicy(), entry(None), CopyRoute.WHOLE),
    ],
)
def test_route(facts: CopyFacts, policy: CopyPolicy, copied: Entry, route: CopyRoute) -> None:
    assert copy_route(replace(facts, policy=policy), copied) is route


def test_facts_of_stores(tmp_path: Path) -> None:
    def facts(source: Any, destination: Any, **settings: Any) -> CopyFacts:
        found = CopyFacts.from_stores(source, destination, CopyPolicy(), aiozarr.Settings(**settings))
        return replace(found, can_upload=None)

    disk, memory = LocalStore(tmp_path), MemoryStore()
    assert facts(disk, disk) == DISK_TO_DISK
    assert facts(disk, memory) == replace(DISK_TO_DISK, writes_files=False)
    assert facts(disk, disk, max_request_bytes=100, on_event=print) == replace(
        DISK_TO_DISK, part_bytes=100, is_observed=True
    )
    with GcsServer("b") as server:
        cloud = ObjectStore("gs://b/x", **server.storage_options)
        assert facts(cloud, disk) == CLOUD_TO_DISK
        assert facts(cloud, ObjectStore("gs://b/y", **server.storage_options)) == replace(ONE_CLOUD, can_upload=None)
