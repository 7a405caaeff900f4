"""Order, type, filters and compressor of v2 arrays as a codec chain, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata import NamedConfig
from aiozarr.metadata.v2_encoding import Encoding, parse_compressor, parse_filters, read_encoding, refuse_pickle

ZLIB: dict[str, Any] = {"id": "zlib", "level": 3}
DELTA: dict[str, Any] = {"id": "delta", "dtype": "<i4"}


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        (Encoding("C", "<i4"), ["bytes"]),
        (Encoding("F", ">i4", (), ZLIB), ["transpose", "bytes", "numcodecs.zlib"]),
        (Encoding("C", "<i4", (DELTA,), ZLIB), ["v2_elements", "numcodecs.zlib"]),
        (Encoding("C", "<i4", (), {"id": "other"}), ["v2_elements"]),
    ],
)
def test_an_encoding_is_a_codec_chain_and_is_read_from_it(encoding: Encoding, names: list[str]) -> None:
    chain = encoding.codecs(2)
    assert [codec.name for codec in chain] == names
    assert read_encoding(chain, np.dtype("i4"), 2) == encoding


@pytest.mark.parametrize(
    ("chain", "member"),
    [
        ([NamedConfig("gzip")], "codecs[0]"),
        ([NamedConfig("bytes"), NamedConfig("gzip")], "codecs[1]"),
        ([NamedConfig("bytes"), NamedConfig("numcodecs.zlib"), NamedConfig("numcodecs.zlib")], "codecs[2]"),
        ([NamedConfig("transpose", {"order": [1, 2, 0]}), NamedConfig("bytes")], "codecs[0]"),
    ],
)
def test_a_chain_that_the_format_cannot_represent_is_named(chain: list[NamedConfig], member: str) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        read_encoding(chain, np.dtype("i4"), 3)
    assert caught.value.member == member


def test_nonstandard_members_of_gdal_and_netcdf_are_parsed_unless_strict() -> None:
    blosc, shuffle = {"id": "blosc", "shuffle": "BIT"}, {"id": "shuffle", "elementsize": 0}
    assert parse_compressor(blosc, strict=False) == {"id": "blosc", "shuffle": 2}
    assert parse_filters([shuffle], item_size=4, strict=False) == ({"id": "shuffle", "elementsize": 4},)
    with pytest.raises(InvalidMetadataError):
        parse_compressor(blosc, strict=True)
    with pytest.raises(InvalidMetadataError):
        parse_filters([shuffle], item_size=4, strict=True)


@pytest.mark.parametrize("name", ["pickle", "Pickle", " pickle ", "numcodecs.pickle"])
def test_pickle_is_rejected_in_any_spelling(name: str) -> None:
    with pytest.raises(UnsupportedMetadataError, match="unpickling"):
        refuse_pickle(name, "filters[0]")
