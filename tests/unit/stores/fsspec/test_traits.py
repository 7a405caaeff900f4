"""What is known of file systems of fsspec."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from aiozarr.stores.fsspec.traits import traits_of


@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
@pytest.mark.parametrize(("below", "listable"), [("http://127.0.0.1:9/a", False), ("memory://a", True)])
def test_a_cache_lists_what_the_file_system_below_it_lists(
    cache: str, below: str, listable: bool, tmp_path: Path
) -> None:
    fs, _ = fsspec.core.url_to_fs(f"{cache}::{below}", **{cache: {"cache_storage": str(tmp_path)}})
    assert traits_of(fs).listable is listable
