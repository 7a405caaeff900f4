"""Other shapes of the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import InvalidMetadataError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def pipeline_of(name: str, shape: tuple[int, ...], configuration: dict[str, Any]) -> CodecPipeline:
    spec = ArraySpec(shape, np.dtype("u2"), np.zeros((), "u2"))
    return CodecPipeline.resolve([{"name": name, "configuration": configuration}, BYTES], spec)


def encoded_shape(pipeline: CodecPipeline) -> tuple[int, ...]:
    return pipeline._specs[-1].shape


@pytest.mark.parametrize(
    ("name", "shape", "configuration", "encoded"),
    [
        ("reshape", (100, 50, 64, 3), {"shape": [[0, 1], [2], 3]}, (5000, 64, 3)),
        ("reshape", (4, 6), {"shape": [2, -1, 3]}, (2, 4, 3)),
        ("reshape", (4, 6), {"shape": [[0, 1]]}, (24,)),
        ("reshape", (4, 6), {"shape": [[0], 2, 3]}, (4, 2, 3)),
        ("reshape", (), {"shape": [1, -1]}, (1, 1)),
        ("reshape", (1, 1), {"shape": []}, ()),
    ],
)
def test_elements_keep_their_order_in_another_shape(
    name: str, shape: tuple[int, ...], configuration: dict[str, Any], encoded: tuple[int, ...]
) -> None:
    pipeline = pipeline_of(name, shape, configuration)
    assert encoded_shape(pipeline) == encoded
    array = np.arange(np.prod(shape, dtype=int), dtype=np.uint16).reshape(shape)
    assert np.frombuffer(bytes(pipeline.encode(array)), "<u2").tolist() == array.reshape(-1).tolist()
    assert np.array_equal(pipeline.decode(pipeline.encode(array)), array)
    written = pipeline.to_json()[0]
    assert written["name"] == name
    assert written.get("configuration", {}) == configuration


@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        ("reshape", {"shape": [5, 5]}),
        ("reshape", {"shape": [-1, -1]}),
        ("reshape", {"shape": [5, -1]}),
        ("reshape", {"shape": [0, -1]}),
        ("reshape", {"shape": [[1], [0]]}),
        ("reshape", {"shape": [[1, 0]]}),
        ("reshape", {"shape": [2, [0], 3]}),
        ("reshape", {"shape": [[0], [2]]}),
        ("reshape", {"shape": [True, 24]}),
        ("reshape", {"shape": 24}),
        ("reshape", {"shape": [2**62, 2**62]}),
        ("reshape", {}),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name: str, configuration: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        pipeline_of(name, (4, 6), configuration)
    assert (caught.value.member or "").startswith("codecs[0].configuration")
