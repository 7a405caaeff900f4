"""`progress=True` draws a bar with rich, and names the package where rich is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import aiozarr
from aiozarr.stores import MemoryStore


async def test_reads_writes_and_copies_draw_a_bar(tmp_path: Path) -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=8, dtype="i4", chunks=2)
    await array[...].write(range(8), progress=True)
    assert (await array[...].read(progress=True)).tolist() == list(range(8))
    assert (await array[...].read(progress=False)).tolist() == list(range(8))
    await aiozarr.copy(array.store, tmp_path / "a", progress=True)
    blocking = aiozarr.sync.open_array(tmp_path / "a")
    assert blocking.view.read(progress=True).tolist() == list(range(8))


async def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    array = await aiozarr.create_array(MemoryStore(), data=[1])
    monkeypatch.setattr("aiozarr.common.progress.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="progress=True needs the package rich: pip install rich"):
        await array[...].read(progress=True)


async def test_progress_of_another_type_is_refused() -> None:
    array = await aiozarr.create_array(MemoryStore(), data=[1])
    with pytest.raises(TypeError, match="progress must be a function, True or None, not int"):
        await array[...].read(progress=3)  # type: ignore[arg-type]
