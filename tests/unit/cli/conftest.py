"""The sample store of the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import make_sample


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A new sample store."""
    return make_sample(tmp_path / "sample.zarr")
