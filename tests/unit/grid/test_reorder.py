"""Assignment between arrays whose elements lie in different orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.grid.reorder import FROM_BYTES, SLICE, assign


class Watched(np.ndarray[Any, Any]):
    """Counts the assignments."""

    assignments = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        type(self).assignments += 1
        super().__setitem__(key, value)


def count(out: np.ndarray[Any, Any], part: np.ndarray[Any, Any]) -> int:
    Watched.assignments = 0
    assign(out.view(Watched), part)
    return Watched.assignments


@pytest.mark.parametrize("shape", [(64, 64, 64), (32, 32, 33), (512, 130), (2, 256, 256), (70, 70, 70), (3, 2), (40,)])
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "u1", "c16"])
def test_elements_arrive_where_they_belong(shape: tuple[int, ...], dtype: str) -> None:
    part = np.arange(np.prod(shape)).astype(dtype).reshape(shape[::-1]).T
    room = np.zeros([length + 1 for length in shape], part.dtype.newbyteorder("="))
    out = room[tuple(slice(1, None) for _ in shape)]
    assign(out, part)
    assert np.array_equal(out, part)
    assert not room[0].any()
    assert not room[..., 0].any()


def test_colliding_elements_are_assigned_in_slices() -> None:
    part = np.zeros((64, 64, 64), "i4").T
    out = np.empty((64, 64, 64), "i4")
    assert part.nbytes > FROM_BYTES
    assert count(out, part) == 64 // SLICE


def test_everything_else_is_one_assignment() -> None:
    out = np.empty((64, 64, 64), "i4")
    for part in (
        np.zeros((64, 64, 64), "i4"),
        np.zeros((64, 64, 64), "i4")[::-1],
        np.zeros((64, 64, 65), "i4").T[:64],
        np.zeros((8, 64, 64), "i4").T[:, :, :4],
        np.zeros((), "i4"),
        np.broadcast_to(np.zeros((64, 64, 1), "i4"), (64, 64, 64)),
    ):
        target = out[tuple(slice(length) for length in part.shape)] if part.ndim else out
        assert count(target, part) == 1
    assert count(out.T, np.zeros((64, 64, 64), "i4").T) == 1
