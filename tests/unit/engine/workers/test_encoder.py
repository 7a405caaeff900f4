"""A worker reuses its block, and encoded chunks do not change with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr import sync
from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.encoder import MAX_BLOCK_BYTES, encode_chunk, thread_encoder
from aiozarr.grid.axes import RegularAxis
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Strided
from aiozarr.stores import MemoryStore

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
TRANSPOSE = "transpose"
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


def test_the_block_is_reused_unless_chunks_are_large() -> None:
    pipeline = CodecPipeline.resolve([BYTES, ZSTD], SPEC)
    first = thread_encoder(pipeline)
    assert thread_encoder(pipeline) is first
    smaller = CodecPipeline.resolve([BYTES], ArraySpec((2, 3), np.dtype("<i2"), np.array(0, "<i2")))
    assert np.may_share_memory(thread_encoder(smaller).block(), first.block())
    large = CodecPipeline.resolve(["bytes"], ArraySpec((MAX_BLOCK_BYTES + 1,), np.dtype("u1"), np.array(0, "u1")))
    assert not np.may_share_memory(thread_encoder(large).block(), thread_encoder(large).block())
    assert np.may_share_memory(thread_encoder(smaller).block(), first.block())


def test_encoded_bytes_in_the_block_are_copied_and_others_are_not() -> None:
    encoder = thread_encoder(CodecPipeline.resolve([BYTES], SPEC))
    block = encoder.block()
    block[...] = np.arange(16).reshape(4, 4)
    encoded = encoder.encode_block(block)
    block[...] = 0
    assert bytes(encoded) == np.arange(16, dtype="<i4").tobytes()
    other = memoryview(bytearray(64))
    assert encoder._detached(other) is other


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 1), (4, 3), (2, 3, 200), (2, 40, 1000)])
@pytest.mark.parametrize("codecs", [[BYTES], [BYTES, ZSTD], [BYTES, ZSTD, "crc32c"], [TRANSPOSE, BYTES, ZSTD]])
def test_values_of_any_strides_are_encoded_like_contiguous_ones(shape: tuple[int, ...], codecs: list[Any]) -> None:
    for dtype in ("u1", ">i2", "<c16", "S5", "M8[s]"):
        for layout in ("wide", "steps", "reverse", "broadcast"):
            check_encoding(shape, codecs, dtype, layout)


def check_encoding(shape: tuple[int, ...], codecs: list[Any], dtype: str, layout: str) -> None:
    type_ = np.dtype(dtype).newbyteorder("=")
    order = {"name": "transpose", "configuration": {"order": list(range(len(shape)))[::-1]}}
    spec = ArraySpec(shape, type_, np.zeros((), type_))
    pipeline = CodecPipeline.resolve([order if codec == TRANSPOSE else codec for codec in codecs], spec)
    if layout == "broadcast":
        values = np.broadcast_to(np.full((), 7).astype(type_), shape)
    else:
        step = {"wide": slice(None), "steps": slice(None, None, 2), "reverse": slice(None, None, -1)}[layout]
        wide = tuple([2 * length + 3 for length in shape])
        filled = (np.arange(int(np.prod(wide))) % 120).astype(type_).reshape(wide)
        values = filled[(..., *[step] * len(shape))][(..., *[slice(length) for length in shape])]
    encoded = thread_encoder(pipeline).encode(values)
    assert bytes(encoded) == bytes(pipeline.encode(np.ascontiguousarray(values).reshape(shape)))
    assert pipeline.decode(encoded).tolist() == values.tolist()


RAW = np.arange(256, dtype="u1").reshape(16, 16) % 5
BOOLS = RAW.view(bool)


def write_whole(array: sync.Array, values: Any) -> None:
    array[...] = values


def write_parts(array: sync.Array, values: Any) -> None:
    array[...] = np.ones(values.shape, values.dtype) if values.dtype.names is None else values[::-1]
    array[:5, 1:] = values[:5, 1:]
    array[:5, 0] = values[:5, 0]
    array[5:] = values[5:]


def write_pointwise(array: sync.Array, values: Any) -> None:
    array.vindex[tuple(np.indices(values.shape))] = values


def write_orthogonally(array: sync.Array, values: Any) -> None:
    rows = np.arange(16)[::-1]
    array.oindex[rows, :] = values[rows]


def write_strided(array: sync.Array, values: Any) -> None:
    wide = np.zeros((16, 32), values.dtype)
    wide[:, ::2] = values
    array[...] = wide[:, ::2]


@pytest.mark.parametrize("write", [write_whole, write_parts, write_pointwise, write_orthogonally, write_strided])
@pytest.mark.parametrize(
    "options",
    [
        {"codecs": []},
        {"codecs": ["zstd"]},
        {"codecs": [], "shards": (8, 8)},
        {"zarr_format": 2, "compressor": None},
        {"zarr_format": 2, "compressor": None, "order": "F"},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_record", [False, True], ids=["bool", "record"])
def test_bools_are_stored_as_0_and_1(write: Any, options: dict[str, Any], *, is_record: bool) -> None:
    values = BOOLS
    if is_record:
        shape = (2,) if "zarr_format" in options else ()  # format 3 has no fields that are arrays
        values = np.zeros(BOOLS.shape, [("n", "u2"), ("flag", "?", shape)])
        values["n"], values["flag"] = RAW, BOOLS[:, :, None] if shape else BOOLS
    given = values.tobytes()
    store = MemoryStore()
    array = sync.create_array(store, shape=BOOLS.shape, dtype=values.dtype, chunks=(4, 4), **options)
    write(array, values)
    name: Any = "flag" if is_record else ...
    stored = sync.open_array(store)[...]
    assert np.array_equal(stored[name].view(np.uint8), values[name].view(np.uint8) != 0)
    assert values.tobytes() == given


def test_a_chunk_of_valid_bools_is_not_copied() -> None:
    pipeline = CodecPipeline.resolve([BYTES], ArraySpec((4, 4), np.dtype(bool), np.array(False)))
    values = np.eye(4, dtype=bool)
    encoded = encode_chunk(pipeline, values, parts((4, 4))[0], None)  # type: ignore[arg-type]
    assert np.may_share_memory(np.frombuffer(encoded or b"", bool), values)


def test_bools_of_the_fill_value_are_not_stored_whatever_their_bytes() -> None:
    pipeline = CodecPipeline.resolve([BYTES], ArraySpec((4, 4), np.dtype(bool), np.array(True)))
    assert encode_chunk(pipeline, np.full((4, 4), 7, "u1").view(bool), parts((4, 4))[0], None) is None  # type: ignore[arg-type]
