"""Stores written by other implementations read as they should; the environment (AIOZARR_FIXTURES) names the folder."""

from __future__ import annotations

import asyncio
import json
import os
import tarfile
import zipfile
from base64 import b64encode
from collections import Counter
from contextlib import suppress
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

# How many entries there were when this was written; a larger collection raises these, nothing lowers them.
FLOOR = {"array": 1100, "group": 179, "invalid": 112}
DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", "meta")
# No peer reads these for want of a codec, and nothing is wrong with the data: reading them is as good as refusing.
LACKS_A_CODEC = ("UnknownCodecError", "an implementation without it must refuse")
SECONDS = 5.0
"""Beyond any refusal on a busy machine, which takes a few milliseconds."""

Entry = dict[str, Any]
AnyArray = np.ndarray[Any, Any]


@cache
def manifest() -> list[Entry]:
    """The entries that are nodes: the others are single codec blobs, which the codecs' own tests read."""
    entries: list[Entry] = [] if ROOT is None else json.loads(Path(ROOT, "manifest.json").read_text("utf-8"))
    return [entry for entry in entries if entry["kind"] in FLOOR]


def entries(kind: str, member: str = "path") -> list[Any]:
    """The entries of a kind that have a member, as parameters of a test."""
    found = [entry for entry in manifest() if entry["kind"] == kind and member in entry]
    return [pytest.param(entry, id=f"{entry['path']}/{entry['node']}".strip("/")) for entry in found]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fixtures")


@cache
def unpack(archive: str, into: Path) -> None:
    folder = into / Path(archive).parent
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(Path(str(ROOT), archive)) as tar:
        tar.extractall(folder, filter="data")


def locate(entry: Entry, name: str, unpacked: Path) -> Path:
    """A path of the entry: below the unpacked archives, or else where it lies. Zip archives are opened as they are."""
    if "archive" in entry:
        unpack(entry["archive"], unpacked)
    return unpacked / name if (unpacked / name).exists() else Path(str(ROOT), name)


def has_document(entry: Entry, name: str, unpacked: Path) -> bool:
    """Whether a metadata document lies at the child `name` of an entry."""
    store, path = locate(entry, entry["path"], unpacked), Path(entry["node"], name)
    if store.is_file():
        with zipfile.ZipFile(store) as archive:
            return any((path / each).as_posix() in archive.namelist() for each in DOCUMENTS)
    return any((store / path / each).exists() for each in DOCUMENTS)


def expected_values(entry: Entry, unpacked: Path, member: str = "expected") -> AnyArray:
    path = locate(entry, entry[member], unpacked)
    if path.suffix == ".npy":
        values = np.load(path, allow_pickle=False)
        return np.broadcast_to(values, entry["shape"]) if entry.get("expected_is_constant") else values
    document = json.loads(path.read_text("utf-8"))
    return objects(document["data"], document["shape"])


def objects(items: list[Any], shape: Any) -> AnyArray:
    """An array of objects; numpy would take lists among them for dimensions."""
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array.reshape(shape)


def plain(item: Any) -> Any:
    """An element as JSON has it."""
    match item:
        case bytes() | bytearray() | memoryview():
            return {"base64": b64encode(bytes(item)).decode("ascii")}
        case np.ndarray():
            return item.tolist()
        case np.generic():
            return item.item()
        case tuple():
            return list(item)
        case _:
            return item


def assert_equal(values: AnyArray, expected: AnyArray) -> None:
    """See that values are equal, type and all, but for the types that stand for those that `.npy` and JSON lack."""
    if expected.dtype == object:
        found = objects([plain(item) for item in values.ravel().tolist()], values.shape)
        assert found.shape == expected.shape
        np.testing.assert_equal(found.ravel().tolist(), expected.ravel().tolist())
        return
    if values.dtype.type.__module__ != "numpy":  # ml_dtypes: float32 and int8 hold all of their values
        values = values.astype(expected.dtype)
    assert values.dtype == expected.dtype.newbyteorder("=")
    assert values.shape == expected.shape
    if values.dtype.names:  # field by field, because numpy finds no NaN in records equal to another
        for name in values.dtype.names:
            assert_equal(values[name], expected[name])
        return
    np.testing.assert_array_equal(values, expected.astype(values.dtype, copy=False), strict=True)


@pytest.mark.parametrize("entry", entries("array"))
async def test_an_array_reads_equal(entry: Entry, unpacked: Path) -> None:
    array = await aiozarr.open_array(locate(entry, entry["path"], unpacked), entry["node"])
    expected = expected_values(entry, unpacked)
    assert list(array.shape) == entry["shape"]
    values = np.asarray(await array[...])
    assert_equal(values, expected.reshape(entry["shape"]))
    assert values.dtype == array.dtype
    backwards = (slice(None, None, -2),) * array.ndim
    assert_equal(np.asarray(await array[backwards]), expected.reshape(entry["shape"])[backwards])
    if "attributes" in entry:
        np.testing.assert_equal(dict(array.attrs), entry["attributes"])


@pytest.mark.parametrize("entry", entries("array", "expected_writer"))
async def test_an_array_of_zarr_python_1_reads_as_that_wrote_it_where_the_settings_say_so(
    entry: Entry, unpacked: Path
) -> None:
    settings = aiozarr.Settings(v1_order_f="written")
    array = await aiozarr.open_array(locate(entry, entry["path"], unpacked), entry["node"], settings=settings)
    assert_equal(np.asarray(await array[...]), expected_values(entry, unpacked, "expected_writer"))


@pytest.mark.parametrize("entry", entries("group"))
async def test_a_group_lists_its_children(entry: Entry, unpacked: Path) -> None:
    expected = json.loads(locate(entry, entry["expected"], unpacked).read_text("utf-8"))
    group = await aiozarr.open_group(locate(entry, entry["path"], unpacked), entry["node"])
    np.testing.assert_equal(dict(group.attrs), expected["attributes"])
    found = {name: "array" if isinstance(node, aiozarr.Array) else "group" async for name, node in group.members()}
    # A folder without a document, and with nodes below it, is an implicit group; the lists of children leave those out.
    implicit = {name for name in found if not has_document(entry, name, unpacked)}
    assert {found[name] for name in implicit} <= {"group"}
    assert {name: kind for name, kind in found.items() if name not in implicit} == expected["children"]


async def read_all(place: Path, path: str, **options: Any) -> aiozarr.Array | aiozarr.Group:
    node = await aiozarr.open(place, path, **options)
    if isinstance(node, aiozarr.Array):
        await node[...]
    return node


@pytest.mark.parametrize("entry", entries("invalid"))
async def test_damaged_objects_raise_a_typed_error(entry: Entry, unpacked: Path) -> None:
    place = locate(entry, entry["path"], unpacked)
    async with asyncio.timeout(SECONDS):
        if "ambiguous" in entry:
            # Read as what its writers mean; a strict reader refuses it.
            await read_all(place, entry["node"])
            with pytest.raises(aiozarr.AiozarrError):
                await read_all(place, entry["node"], settings=aiozarr.Settings(strict=True))
            return
        if any(reason in entry["error"] for reason in LACKS_A_CODEC):
            with suppress(aiozarr.AiozarrError):
                await read_all(place, entry["node"])
            return
        with pytest.raises(aiozarr.AiozarrError) as refused:
            await read_all(place, entry["node"])
        assert len(str(refused.value)) > 20


@pytest.mark.parametrize("entry", entries("array", "quirk"))
async def test_lenient_reads_are_refused_with_strict_settings(entry: Entry, unpacked: Path) -> None:
    if "bitround" in entry["quirk"]:
        pytest.skip("the name has been registered since")
    with pytest.raises(aiozarr.AiozarrError):
        await read_all(locate(entry, entry["path"], unpacked), entry["node"], settings=aiozarr.Settings(strict=True))


def test_no_entry_was_lost() -> None:
    counts = Counter(entry["kind"] for entry in manifest())
    assert {kind: max(counts[kind], floor) for kind, floor in FLOOR.items()} == dict(counts)
