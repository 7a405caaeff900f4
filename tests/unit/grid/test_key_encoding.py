"""Chunk keys of the specification, and rejected separators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid.key_encoding import DefaultKeyEncoding, V2KeyEncoding, resolve_key_encoding


def resolve(name: str, configuration: dict[str, Any], ndim: int = 3) -> Any:
    return resolve_key_encoding(SimpleNamespace(name=name, configuration=configuration), ndim)


@pytest.mark.parametrize(
    ("name", "configuration", "coords", "key"),
    [
        ("default", {}, (1, 23, 45), "c/1/23/45"),
        ("default", {"separator": "/"}, (1, 23, 45), "c/1/23/45"),
        ("default", {"separator": "."}, (1, 23, 45), "c.1.23.45"),
        ("default", {}, (), "c"),
        ("default", {"separator": "."}, (), "c"),
        ("v2", {}, (1, 23, 45), "1.23.45"),
        ("v2", {"separator": "."}, (0,), "0"),
        ("v2", {"separator": "/"}, (1, 23, 45), "1/23/45"),
        ("v2", {}, (), "0"),
        ("default", {}, (np.int64(7),), "c/7"),
    ],
)
def test_a_chunk_has_the_key_of_the_specification(
    name: str, configuration: dict[str, Any], coords: tuple[int, ...], key: str
) -> None:
    encoding = resolve(name, configuration, len(coords))
    assert encoding.encode(coords) == key
    assert resolve(name, encoding.to_json(), len(coords)) == encoding


@pytest.mark.parametrize("separator", ["/../", "", "//", "-", "./", None, 0, ["/"], {"/": 1}])
def test_other_separators_are_rejected(separator: Any) -> None:
    for name in ("default", "v2"):
        with pytest.raises(InvalidMetadataError) as caught:
            resolve(name, {"separator": separator})
        assert caught.value.member == "chunk_key_encoding.configuration.separator"
    with pytest.raises(ValueError, match="separator"):
        DefaultKeyEncoding(separator)
    with pytest.raises(ValueError, match="separator"):
        V2KeyEncoding(separator)


def test_unknown_encodings_and_members_are_named() -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve("hexagonal", {})
    assert (caught.value.point, caught.value.name) == ("chunk_key_encoding", "hexagonal")
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve("default", {"suffix": ".tif"})
    assert caught.value.member == "chunk_key_encoding.configuration.suffix"


@pytest.mark.parametrize("encoding", [("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")])
@given(coords=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=4).map(tuple))
def test_a_chunk_key_is_decoded_to_its_coordinates(encoding: tuple[str, str], coords: tuple[int, ...]) -> None:
    found = resolve(encoding[0], {"separator": encoding[1]}, len(coords))
    assert found.decode(found.encode(coords), len(coords)) == coords


@pytest.mark.parametrize(
    "key", ["zarr.json", "c", "c/1", "c/1/2/3", "c/01/2", "c/1/x", "d/1/2", "c/1/2.tmp", "c/1/" + "9" * 30]
)
def test_other_keys_have_no_coordinates(key: str) -> None:
    assert resolve("default", {}, 2).decode(key, 2) is None
