"""A fixture that runs the tests of a module with each library for gzip and zlib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiozarr.codecs import gzip as inflate


@pytest.fixture(scope="module", params=["zlib", "isal.isal_zlib"], autouse=True)
def inflating(request: Any) -> Iterator[str]:
    """Use one of the libraries in place of the default one."""
    before = inflate._library
    inflate._library = pytest.importorskip(request.param)
    yield request.param
    inflate._library = before
