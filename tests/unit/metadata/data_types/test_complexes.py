"""Complex numbers: pairs of numbers in JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_both_parts_keep_their_bits(name: str) -> None:
    data_type = DataType.from_json(name)
    parsed = data_type.parse_fill_value([-0.0, "-Infinity"])
    assert np.signbit(parsed.real)
    assert parsed.imag == -np.inf
    assert data_type.render_fill_value(parsed) == [-0.0, "-Infinity"]


@pytest.mark.parametrize("value", [1.0, [1.0], [1.0, 2.0, 3.0], [1.0, None], "NaN"])
def test_other_json_values_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("complex64").parse_fill_value(value)
