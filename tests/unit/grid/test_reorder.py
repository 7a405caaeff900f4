"""Assignment between arrays of different memory orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.grid.reorder import MIN_REORDER_BYTES, SLICE_ELEMENTS, assign


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
def test_assignment_equals_that_of_numpy(shape: tuple[int, ...], dtype: str) -> None:
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
    assert part.nbytes > MIN_REORDER_BYTES
    assert count(out, part) == 64 // SLICE_ELEMENTS


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


@pytest.mark.parametrize(
    "dtype", ["i1", "<f4", ">f4", "c16", "M8[ns]", "S3", "U2", "V5", [("a", "i2"), ("b", "f8")], "?"]
)
@pytest.mark.parametrize("shape", [(5, 4, 7), (3, 1), (0, 4), (4, 0), (2, 600), (6, 2)])
def test_rows_of_all_types_and_lengths_are_assigned_and_nothing_else(shape: tuple[int, ...], dtype: Any) -> None:
    element = np.dtype(dtype)
    rng = np.random.default_rng(0)
    size = int(np.prod(shape))
    bits = rng.integers(0, 2, size * element.itemsize).astype(np.uint8)
    part = np.frombuffer(bits.tobytes(), element).reshape(shape) if size else np.empty(shape, element)
    room = np.zeros([length + 2 for length in shape], element)
    before = room.tobytes()
    out = room[tuple(slice(1, -1) for _ in shape)]
    assign(out, part)
    assert out.tobytes() == part.tobytes()
    out[...] = np.zeros((), element)
    assert room.tobytes() == before


def test_objects_and_texts_keep_their_references() -> None:
    for part in (np.array([["a", None], [(1,), 2.5]], object), np.array([["a" * 40, "b"], ["", "c"]], "U40")):
        room = np.empty((3, 3), part.dtype)
        assign(room[1:, 1:], part)
        assert room[1:, 1:].tolist() == part.tolist()


def test_the_mask_of_a_masked_output_is_written_to_as_numpy_does() -> None:
    room = np.ma.masked_all((4, 4), "i4")
    assign(room[1:3, 1:3], np.arange(4, dtype="i4").reshape(2, 2))
    assert room[1:3, 1:3].tolist() == [[0, 1], [2, 3]]
    assert room.mask.sum() == 12
