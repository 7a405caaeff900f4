"""Tests of what inflates run with each library that can do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiozarr.codecs import _inflate


@pytest.fixture(scope="module", params=["zlib", "isal.isal_zlib"], autouse=True)
def inflating(request: Any) -> Iterator[str]:
    """Use one of the libraries, whichever would be used else."""
    before = _inflate._library
    _inflate._library = pytest.importorskip(request.param)
    yield request.param
    _inflate._library = before
