"""The committed stores of zarr-python and TensorStore read bit for bit (scripts/make_test_data.py writes them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync

DATA = Path(__file__).parents[1] / "data"
ENTRIES: list[dict[str, str]] = json.loads((DATA / "manifest.json").read_text("utf-8"))


def expected(entry: dict[str, str]) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = np.load(DATA / "expected" / f"{entry['case']}.npy", allow_pickle=False)
    return values


def test_both_writers_and_every_case_are_there() -> None:
    assert len({entry["path"].split("/")[0] for entry in ENTRIES}) == 2
    assert {path.stem for path in (DATA / "expected").iterdir()} == {entry["case"] for entry in ENTRIES}
    assert len(ENTRIES) >= 80


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["path"])
async def test_a_committed_store_reads_bit_for_bit(entry: dict[str, str]) -> None:
    array = await aiozarr.open_array(DATA / entry["path"])
    values = await array[...]
    wanted = expected(entry)
    assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
    assert np.asarray(values).tobytes() == wanted.tobytes()
    assert array.attrs["case"] == entry["case"]
    assert array.attrs["nested"] == {"list": [1, 2.5, None, True]}


@pytest.mark.parametrize("entry", ENTRIES[::7], ids=lambda entry: entry["path"])
def test_the_blocking_facade_reads_the_same(entry: dict[str, str]) -> None:
    values = aiozarr.sync.open_array(DATA / entry["path"])[...]
    assert np.asarray(values).tobytes() == expected(entry).tobytes()
