"""Bytes that numcodecs wrote with one codec each decode to what was encoded; AIOZARR_FIXTURES names their folder.

A codec of bytes stands behind the elements, as a v2 compressor does; any other one is a filter of `v2_elements`.
"""

from __future__ import annotations

import base64
import json
import os
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.v2_elements import BYTES_CODEC_IDS

ROOT = os.environ.get("AIOZARR_FIXTURES")
pytestmark = pytest.mark.skipif(
    ROOT is None, reason="AIOZARR_FIXTURES names no folder of stores written by other implementations"
)

# How many entries there were when this was written; nothing lowers it.
FLOOR = 1049

Entry = dict[str, Any]
Values = np.ndarray[Any, Any]


def entries() -> list[Entry]:
    manifest = [] if ROOT is None else json.loads(Path(ROOT, "manifest.json").read_text("utf-8"))
    return [entry for entry in manifest if entry["kind"] == "codec"]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("codec_fixtures")


@cache
def unpack(archive: str, into: Path) -> None:
    with tarfile.open(Path(str(ROOT), archive)) as tar:
        tar.extractall(into, filter="data")


def file(entry: Entry, name: str, unpacked: Path) -> Path:
    if "archive" not in entry:
        return Path(str(ROOT), name)
    unpack(entry["archive"], unpacked)
    return unpacked / name


def expected_values(entry: Entry, unpacked: Path) -> Values:
    path = file(entry, entry["expected"], unpacked)
    if path.suffix == ".npy":
        stored: Values = np.load(path, allow_pickle=False)
        return stored
    told = json.loads(path.read_text("utf-8"))
    values = np.empty(len(told["data"]), object)
    for i, item in enumerate(told["data"]):
        values[i] = base64.b64decode(item["base64"]) if isinstance(item, dict) and "base64" in item else item
    return values.reshape(told["shape"])


def pipeline(config: dict[str, Any], expected: Values, order: str) -> CodecPipeline:
    rest = {key: value for key, value in config.items() if key != "id"}
    behind = config["id"] in BYTES_CODEC_IDS
    codecs: list[Any] = []
    if order == "F" and expected.ndim > 1:
        codecs.append({"name": "transpose", "configuration": {"order": list(reversed(range(expected.ndim)))}})
    elements = {"dtype": expected.dtype.str, "filters": [] if behind else [config]}
    codecs.append({"name": "v2_elements", "configuration": elements})
    if behind:
        codecs.append({"name": f"numcodecs.{config['id']}", "configuration": rest})
    spec = ArraySpec(expected.shape, expected.dtype, np.zeros((), expected.dtype), 1 << 24)
    return CodecPipeline.resolve(codecs, spec)


def plain(value: Any) -> Any:
    """A value without numpy and NaN in it, so that it equals what it should."""
    if isinstance(value, (np.ndarray, list)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return "NaN" if isinstance(value, float) and value != value else value


@pytest.mark.parametrize("name", sorted({entry["config"]["id"] for entry in entries()}) or ["none"])
def test_values_encoded_by_numcodecs_are_decoded(name: str, unpacked: Path) -> None:
    decoded: Counter[bool] = Counter()
    for entry in entries():
        if entry["config"]["id"] != name:
            continue
        expected = expected_values(entry, unpacked)
        data = file(entry, entry["path"], unpacked).read_bytes()
        values = pipeline(entry["config"], expected, entry["order"]).decode(data)
        lossy = "lossy" in entry["notes"]
        if lossy:
            # The expectation is what was encoded; what comes back is the library's own affair.
            oracle = np.asarray(numcodecs.get_codec(entry["config"]).decode(data))
            expected = oracle.view(expected.dtype).reshape(expected.shape, order=entry["order"])
        assert values.shape == expected.shape, entry["path"]
        assert values.dtype == expected.dtype, entry["path"]
        if expected.dtype == object:
            assert plain(values) == plain(expected), entry["path"]
        else:
            np.testing.assert_array_equal(values, expected, err_msg=entry["path"])
        decoded[lossy] += 1
    assert sum(decoded.values()) > 0


def test_no_entry_is_left_out() -> None:
    assert len(entries()) >= FLOOR
