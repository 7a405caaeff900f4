"""Memory that a worker uses again never shows through in what was encoded before."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.work.encode import encode_chunk
from aiozarr.engine.work.scratch import MAX_BYTES, detached, scratch
from aiozarr.grid.axes import RegularAxis
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Strided

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
SPEC = ArraySpec((4, 4), np.dtype("<i4"), np.array(0, "<i4"))


def parts(shape: tuple[int, int]) -> list[object]:
    axes = [RegularAxis(4, length) for length in shape]
    return list(Projection(axes, [Strided(0, 1, length) for length in shape]))


@pytest.mark.parametrize("codecs", [[BYTES], [BYTES, ZSTD]])
@pytest.mark.parametrize("dtype", ["<i4", "<f8"])
def test_chunks_keep_their_bytes_while_later_ones_are_encoded(codecs: list[object], dtype: str) -> None:
    pipeline = CodecPipeline.resolve(codecs, SPEC)
    values = np.arange(1, 65, dtype=dtype).reshape(8, 8)
    encoded = [encode_chunk(pipeline, values, part, None) for part in parts((8, 8))]  # type: ignore[arg-type]
    assert [pipeline.decode(data).tolist() for data in encoded if data is not None] == [
        values[row : row + 4, column : column + 4].tolist() for row in (0, 4) for column in (0, 4)
    ]


def test_the_memory_is_used_again_unless_it_is_in_use_or_large() -> None:
    with scratch(SPEC) as first:
        with scratch(SPEC) as inside:
            assert not np.may_share_memory(first, inside)
        where = first.ctypes.data
    with scratch(SPEC) as second:
        assert second.ctypes.data == where
    large = ArraySpec((MAX_BYTES + 1,), np.dtype("u1"), np.array(0, "u1"))
    with scratch(large) as third:
        assert not np.may_share_memory(second, third)


def test_what_lies_in_the_memory_is_copied_and_nothing_else_is() -> None:
    block = np.arange(16, dtype="<i4").reshape(4, 4)
    kept = detached(block.data.cast("B"), block)
    block[...] = 0
    assert bytes(kept) == np.arange(16, dtype="<i4").tobytes()
    other = memoryview(bytearray(64))
    assert detached(other, block) is other
