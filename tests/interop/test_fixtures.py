"""Stores written by other implementations read as they should; the environment (AIOZARR_FIXTURES) names the folder.

`waits_for` decides from the features of an entry, not from its name, whether aiozarr can do it yet; what waits is
skipped with its reason, and the numbers of those that run are held by a floor, so that nothing is skipped unseen.
"""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr

ROOT = os.environ.get("AIOZARR_FIXTURES")
pytestmark = pytest.mark.skipif(
    ROOT is None, reason="AIOZARR_FIXTURES names no folder of stores written by other implementations"
)

DATA_TYPES = {"bool", "float16", "float32", "float64", "complex64", "complex128"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
CODECS = {"bytes", "endian", "transpose", "gzip", "blosc", "zstd", "crc32c", "sharding_indexed"}
FORMATS = {3}
# How many entries ran when this was written; more features raise these, nothing lowers them.
FLOOR = {"array": 439, "group": 81, "invalid": 77}

Entry = dict[str, Any]


def manifest() -> list[Entry]:
    """The entries that are nodes: the others are single codec blobs, which the codecs' own tests read."""
    entries: list[Entry] = [] if ROOT is None else json.loads(Path(ROOT, "manifest.json").read_text("utf-8"))
    return [entry for entry in entries if entry["kind"] in FLOOR and entry["format"] in FORMATS]


def entries(kind: str) -> list[Any]:
    return [pytest.param(e, id=f"{e['path']}/{e['node']}".strip("/")) for e in manifest() if e["kind"] == kind]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fixtures")


@cache
def unpack(archive: str, into: Path) -> None:
    folder = into / Path(archive).parent
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(Path(str(ROOT), archive)) as tar:
        tar.extractall(folder, filter="data")


@cache
def unzip(store: Path, into: Path) -> Path:
    folder = into / store.parent.relative_to(store.anchor) / f"{store.name}.unzipped"
    with zipfile.ZipFile(store) as archive:
        archive.extractall(folder)
    return folder


def locate(entry: Entry, name: str, unpacked: Path) -> Path:
    """A path of the entry: below the unpacked archives, or else where it lies. Zip archives are given as folders."""
    if "archive" in entry:
        unpack(entry["archive"], unpacked)
    path = unpacked / name if (unpacked / name).exists() else Path(str(ROOT), name)
    return unzip(path, unpacked) if zipfile.is_zipfile(path) and path.suffix == ".zip" else path


def document(entry: Entry, unpacked: Path) -> Any:
    """The node's metadata document; None where it is not there or no JSON, as invalid entries and archives have it."""
    path = locate(entry, entry["path"], unpacked) / entry["node"] / "zarr.json"
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def codec_names(codecs: Any) -> Iterator[str]:
    """The names of a chain's codecs, those inside shards too."""
    for codec in codecs:
        name, configuration = (codec, {}) if isinstance(codec, str) else (codec["name"], codec.get("configuration", {}))
        yield name
        if name == "sharding_indexed":
            yield from codec_names(configuration["codecs"])
            yield from codec_names(configuration.get("index_codecs", []))


def waits_for(entry: Entry, metadata: Any) -> str | None:
    """What aiozarr cannot do yet that this entry needs; None where it can do all."""
    if entry["kind"] == "invalid":
        # Refusing needs no feature, but the place has to be recognised as a node of this format.
        return None
    if metadata is None:
        return "a node without zarr.json"
    if metadata["node_type"] == "group":
        return None
    data_type = metadata["data_type"]
    name = data_type if isinstance(data_type, str) else data_type["name"]
    if name not in DATA_TYPES and not (name.startswith("r") and name[1:].isdigit()):
        return f"data type {name}"
    grid = metadata["chunk_grid"]
    if (grid if isinstance(grid, str) else grid["name"]) != "regular":
        return f"chunk grid {grid['name']}"
    unknown = sorted(set(codec_names(metadata["codecs"])) - CODECS)
    return f"codec {unknown[0]}" if unknown else None


def reason_to_wait(entry: Entry, unpacked: Path) -> str | None:
    """What the entry waits for; a group, whose listing opens its children, waits for what they wait for."""
    reason = waits_for(entry, document(entry, unpacked))
    if reason is not None or entry["kind"] != "group":
        return reason
    nodes = [str(Path(entry["node"], name)) for name, kind in children(entry, unpacked).items() if kind == "array"]
    inner: list[Entry] = [{**entry, "kind": "array", "node": node} for node in nodes]
    return next((reason for child in inner if (reason := waits_for(child, document(child, unpacked)))), None)


def skip_what_waits(entry: Entry, unpacked: Path) -> None:
    reason = reason_to_wait(entry, unpacked)
    if reason is not None:
        pytest.skip(f"waits for: {reason}")


def children(entry: Entry, unpacked: Path) -> dict[str, str]:
    expected = json.loads(locate(entry, entry["expected"], unpacked).read_text("utf-8"))
    found: dict[str, str] = expected["children"]
    return found


def expected_values(entry: Entry, unpacked: Path) -> np.ndarray[Any, Any]:
    values = np.load(locate(entry, entry["expected"], unpacked), allow_pickle=False)
    return np.broadcast_to(values, entry["shape"]) if entry.get("expected_is_constant") else values


@pytest.mark.parametrize("entry", entries("array"))
async def test_an_array_reads_equal(entry: Entry, unpacked: Path) -> None:
    skip_what_waits(entry, unpacked)
    array = await aiozarr.open_array(locate(entry, entry["path"], unpacked), entry["node"])
    values = await array[...]
    expected = expected_values(entry, unpacked)
    assert list(array.shape) == entry["shape"]
    assert array.dtype == values.dtype
    assert values.dtype.kind == expected.dtype.kind
    assert values.dtype.itemsize == expected.dtype.itemsize
    np.testing.assert_array_equal(values, expected, strict=False)
    backwards = (slice(None, None, -2),) * array.ndim
    np.testing.assert_array_equal(await array[backwards], expected[backwards], strict=False)
    if "attributes" in entry:
        np.testing.assert_equal(dict(array.attrs), entry["attributes"])


@pytest.mark.parametrize("entry", entries("group"))
async def test_a_group_lists_its_children(entry: Entry, unpacked: Path) -> None:
    skip_what_waits(entry, unpacked)
    expected = json.loads(locate(entry, entry["expected"], unpacked).read_text("utf-8"))
    group = await aiozarr.open_group(locate(entry, entry["path"], unpacked), entry["node"])
    np.testing.assert_equal(dict(group.attrs), expected["attributes"])
    found = {name: "array" if isinstance(node, aiozarr.Array) else "group" async for name, node in group.members()}
    # A folder without a document, and with nodes below it, is an implicit group; the lists of children leave those out.
    implicit = {name for name in found if document({**entry, "node": str(Path(entry["node"], name))}, unpacked) is None}
    assert {found[name] for name in implicit} <= {"group"}
    assert {name: kind for name, kind in found.items() if name not in implicit} == expected["children"]


@pytest.mark.parametrize("entry", entries("invalid"))
async def test_what_is_damaged_is_refused_with_a_typed_error(entry: Entry, unpacked: Path) -> None:
    skip_what_waits(entry, unpacked)
    folder = locate(entry, entry["path"], unpacked)
    if "ambiguous" in entry:
        # Read as what its writers mean; a strict reader refuses it.
        await aiozarr.open(folder, entry["node"])
        with pytest.raises(aiozarr.AiozarrError):
            await aiozarr.open(folder, entry["node"], settings=aiozarr.Settings(strict=True))
        return
    with pytest.raises(aiozarr.AiozarrError) as refused:
        node = await aiozarr.open(folder, entry["node"])
        # What is damaged in its chunks alone can be seen no earlier than in a read.
        assert entry.get("stage") == "read", f"{node} opens"
        assert isinstance(node, aiozarr.Array)
        await node[...]
    assert len(str(refused.value)) > 20


def test_no_more_waits_than_is_known(unpacked: Path) -> None:
    running = Counter(e["kind"] for e in manifest() if reason_to_wait(e, unpacked) is None)
    assert {kind: running[kind] for kind in FLOOR} == {kind: max(running[kind], FLOOR[kind]) for kind in FLOOR}
