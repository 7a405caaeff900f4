"""Chunk key encodings of the registry of extensions: its examples, and rejected configurations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid import ChunkKeyEncoding
from aiozarr.grid.key_encoding import resolve_key_encoding


def resolve(name: str, ndim: int, **configuration: Any) -> ChunkKeyEncoding:
    return resolve_key_encoding(SimpleNamespace(name=name, configuration=configuration), ndim)


@pytest.mark.parametrize(
    ("name", "configuration", "coords", "key"),
    [
        ("fanout", {"max_children": 101}, (), "c"),
        ("fanout", {"max_children": 101}, (123,), "d0/1/23/c"),
        ("fanout", {"max_children": 101}, (1234, 5, 67890), "d0/12/34/d1/5/d2/6/78/90/c"),
        ("fanout", {}, (0, 1000), "d0/0/d1/1/0/c"),
        ("suffix", {"suffix": ".tiff", "base_encoding": {"name": "default"}}, (1, 2), "c/1/2.tiff"),
        ("suffix", {"suffix": ".tiff"}, (1, 2), "c/1/2.tiff"),
        ("suffix", {"suffix": ".shard.zip", "base-encoding": {"name": "v2"}}, (1, 2), "1.2.shard.zip"),
        ("template", {"template": "c/{*}", "separator": "/"}, (11, 22, 33), "c/11/22/33"),
        ("template", {"template": "{*}", "separator": "."}, (11, 22, 33), "11.22.33"),
        ("template", {"template": "prefix/{*}", "separator": "/"}, (11, 22, 33), "prefix/11/22/33"),
        ("template", {"template": "{*}.suffix", "separator": "_"}, (11, 22, 33), "11_22_33.suffix"),
        ("template", {"template": "{2}/{0}/{1}", "separator": "."}, (11, 22, 33), "33/11/22"),
        ("template", {"template": "{-1}/{*}", "separator": "/"}, (11, 22, 33), "33/11/22"),
        ("template", {"template": "{*:04}", "separator": "/"}, (11, 22, 33), "0011/0022/0033"),
        ("template", {"template": "{*:02}", "separator": "/"}, (111, 2, 33), "111/02/33"),
        ("template", {"template": "{{{0}}}"}, (7,), "{7}"),
    ],
)
def test_keys_equal_the_examples_of_the_registry(
    name: str, configuration: dict[str, Any], coords: tuple[int, ...], key: str
) -> None:
    encoding = resolve(name, len(coords), **configuration)
    assert encoding.encode(coords) == key
    again = resolve(name, len(coords), **encoding.to_json())
    assert again.encode(coords) == key
    if coords:
        assert encoding.decode(key, len(coords)) == coords


ENCODINGS = [
    ("fanout", {"max_children": 4}),
    ("fanout", {}),
    ("suffix", {"suffix": ".2"}),
    ("suffix", {"suffix": "y", "base_encoding": {"name": "suffix", "configuration": {"suffix": "x"}}}),
    ("template", {"template": "a{-1:03}.{*}z", "separator": "-"}),
]


@pytest.mark.parametrize(("name", "configuration"), ENCODINGS)
@given(coords=st.lists(st.integers(0, 1 << 40), min_size=2, max_size=4).map(tuple))
def test_a_key_is_decoded_to_its_coordinates(name: str, configuration: Any, coords: tuple[int, ...]) -> None:
    encoding = resolve(name, len(coords), **configuration)
    key = encoding.encode(coords)
    assert encoding.decode(key, len(coords)) == coords
    assert encoding.decode(key + "0", len(coords)) != coords
    assert encoding.decode("zarr.json", len(coords)) is None


@pytest.mark.parametrize(
    ("name", "configuration", "member"),
    [
        ("fanout", {"max_children": 3}, ".max_children"),
        ("fanout", {"max_children": 4.0}, ".max_children"),
        ("suffix", {}, ".suffix"),
        ("suffix", {"suffix": ""}, ".suffix"),
        ("suffix", {"suffix": "/../x"}, ".suffix"),
        ("suffix", {"suffix": "x" * 600}, ".suffix"),
        ("suffix", {"suffix": ".x", "base_encoding": 7}, ".base_encoding"),
        ("suffix", {"suffix": ".x", "base_encoding": {"name": "v2", "configuration": 7}}, ".base_encoding"),
        ("template", {"template": 3}, ".template"),
        ("template", {"template": "x"}, ".template"),
        ("template", {"template": "{0}"}, ".template"),
        ("template", {"template": "{0}{1}"}, ".template"),
        ("template", {"template": "{0}7{1}"}, ".template"),
        ("template", {"template": "{0}.{0}.{1}"}, ".template"),
        ("template", {"template": "{0}.{-2}.{1}"}, ".template"),
        ("template", {"template": "{0}.{2}"}, ".template"),
        ("template", {"template": "{0}.{1}.{*}", "separator": "."}, ".template"),
        ("template", {"template": "{*}"}, ".separator"),
        ("template", {"template": "{*}", "separator": ""}, ".separator"),
        ("template", {"template": "{*}", "separator": "/../"}, ".separator"),
        ("template", {"template": "{*}", "separator": "0"}, ".template"),
        ("template", {"template": "{*}.{*}", "separator": "/"}, ".template"),
        ("template", {"template": "/{*}", "separator": "/"}, ".template"),
        ("template", {"template": "../{*}", "separator": "/"}, ".template"),
        ("template", {"template": "{0}.{1", "separator": "/"}, ".template"),
        ("template", {"template": "{0}.{1}}", "separator": "/"}, ".template"),
    ],
)
def test_encodings_that_leave_the_array_or_share_keys_are_rejected(
    name: str, configuration: dict[str, Any], member: str
) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        resolve(name, 2, **configuration)
    assert caught.value.member == "chunk_key_encoding.configuration" + member


def test_an_unknown_base_encoding_is_named() -> None:
    with pytest.raises(UnsupportedMetadataError, match="'hexagonal'") as caught:
        resolve("suffix", 1, suffix=".x", base_encoding="hexagonal")
    assert (caught.value.point, caught.value.name) == ("chunk_key_encoding", "hexagonal")


def test_nesting_of_encodings_is_bounded() -> None:
    nested: Any = "default"
    for _ in range(5000):
        nested = {"name": "suffix", "configuration": {"suffix": "x", "base_encoding": nested}}
    with pytest.raises(UnsupportedMetadataError, match="nested chunk key encodings"):
        resolve("suffix", 1, suffix="x", base_encoding=nested)
