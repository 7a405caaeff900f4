"""What is known of file systems of fsspec."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiozarr.stores.fsspec.store import FsspecStore


@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
@pytest.mark.parametrize(("below", "listable"), [("http://127.0.0.1:9/a", False), ("memory://a", True)])
def test_a_cache_lists_the_keys_of_its_file_system(cache: str, below: str, listable: bool, tmp_path: Path) -> None:
    store = FsspecStore(f"{cache}::{below}", **{cache: {"cache_storage": str(tmp_path)}})
    assert store.supports.listable is listable
    assert FsspecStore(store.fs, path="a").supports.listable is listable
