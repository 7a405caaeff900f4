"""Chunk keys: what chunks are stored under, and which separators are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

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
def test_any_other_separator_is_refused(separator: Any) -> None:
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
        resolve("suffix", {})
    assert (caught.value.point, caught.value.name) == ("chunk_key_encoding", "suffix")
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve("default", {"suffix": ".tif"})
    assert caught.value.member == "chunk_key_encoding.configuration.suffix"
