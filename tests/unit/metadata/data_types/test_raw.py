"""Raw bytes: both names, sizes, and fill values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata import DataType

RAW_BYTES = {"name": "raw_bytes", "configuration": {"length_bytes": 2}}


@pytest.mark.parametrize(("value", "fill"), [("r16", [1, 255]), (RAW_BYTES, "Af8=")])
def test_both_names_have_the_bytes_of_their_fill_value(value: Any, fill: Any) -> None:
    data_type = DataType.from_json(value)
    assert (data_type.dtype, data_type.to_json()) == (np.dtype("V2"), value)
    parsed = data_type.parse_fill_value(fill)
    assert parsed.tobytes() == b"\x01\xff"
    assert data_type.render_fill_value(parsed) == fill


@pytest.mark.parametrize("value", ["r7", "r0", "r12", "r" + "8" * 5000, "r8388616"])
def test_sizes_that_are_not_bytes_or_exceed_the_limit_are_rejected(value: str) -> None:
    with pytest.raises((InvalidMetadataError, UnsupportedMetadataError)):
        DataType.from_json(value)


@pytest.mark.parametrize("fill", [[1], [1, 2, 3], [1, 256], 0, "01"])
def test_fill_values_of_another_length_or_kind_are_rejected(fill: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("r16").parse_fill_value(fill)
