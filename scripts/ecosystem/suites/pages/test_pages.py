"""Pages of the documentation run with the releases of a world, with the blocks that only this lane can run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.ecosystem.worlds import ROOT
from tests.docs.test_snippets import run_page

# Those of users of other projects. What a page needs beside them is in the worlds, or the page is skipped there.
PAGES = {
    "dask": "distributed",
    "fastapi": "fastapi",
    "icechunk": "icechunk",
    "obstore": "obstore",
    "opentelemetry": "opentelemetry.sdk",
    "tile-libraries": "rio_tiler",
    "tile-service": "fastapi",
    "virtual-references": "kerchunk",
    "xarray": "xarray",
    "zarr-python": "zarr",
}


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", [page for page, module in PAGES.items() if _is_installed(module)])
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "how-to" / f"{page}.md", {}, in_lane=True)
