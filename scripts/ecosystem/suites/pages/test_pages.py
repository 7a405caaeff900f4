"""Pages of the documentation run with the releases of a world, with the blocks that only this lane can run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.ecosystem.worlds import ROOT
from tests.docs.test_snippets import run_page

# Pages for users of other projects, by the module without which a page is skipped. The worlds have everything else.
PAGES = {
    "how-to/fastapi": "fastapi",
    "how-to/run-a-service": "fastapi",
    "how-to/tiles": "rio_tiler",
    "integrations/dask": "distributed",
    "integrations/icechunk": "icechunk",
    "integrations/obstore": "obstore",
    "integrations/opentelemetry": "opentelemetry.sdk",
    "integrations/virtual-references": "kerchunk",
    "integrations/xarray": "xarray",
    "integrations/zarr-python": "zarr",
}


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", [page for page, module in PAGES.items() if _is_installed(module)])
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / f"{page}.md", {}, in_lane=True)
