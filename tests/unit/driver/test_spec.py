"""A spec is checked completely: whatever is wrong is an `InvalidSpecError` that names the member."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from aiozarr.driver.document_format import FORMATS
from aiozarr.driver.spec import Spec, is_spec
from aiozarr.errors import InvalidSpecError
from aiozarr.settings import Settings

FULL: dict[str, Any] = {
    "driver": "zarr3",
    "kvstore": {"driver": "memory", "path": "a/"},
    "create": True,
    "open": True,
    "context": {"cache_pool": {"total_bytes_limit": 1000}, "data_copy_concurrency": {"limit": 3}},
    "cache_pool": "cache_pool",
    "recheck_cached_data": 12.5,
    "recheck_cached_metadata": "open",
    "dtype": "uint8",
    "rank": 2,
    "schema": {
        "domain": {"inclusive_min": [0, 0], "exclusive_max": [[10], [20]], "labels": ["x", "y"]},
        "chunk_layout": {
            "chunk": {"aspect_ratio": [1, 2]},
            "read_chunk": {"shape_soft_constraint": [5, None], "elements": 100},
            "inner_order": [1, 0],
            "grid_origin": [0, 0],
        },
        "codec": {"driver": "zarr3", "codecs": [{"name": "blosc", "configuration": {"clevel": 3}}]},
        "fill_value": 3,
        "dimension_units": ["4 nm", None],
    },
    "metadata": {
        "data_type": "uint8",
        "shape": [10, 20],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 10]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
        "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 5], "codecs": ["bytes"]}}],
        "dimension_names": ["x", None],
        "attributes": {"a": 1, "dimension_units": ["4 nm", None]},
    },
    "transform": {
        "input_inclusive_min": [1, 2],
        "input_exclusive_max": [5, 6],
        "output": [{"input_dimension": 1, "stride": 2}, {"index_array": [[1], [2], [3], [4]]}],
    },
}
JUNK: list[Any] = [
    None,
    True,
    -1,
    1.5,
    1 << 70,
    10**5000,
    "x",
    "\ud800",
    "",
    [],
    {},
    [None],
    {"name": "x"},
    [[1, 2], [3]],
    [1, "a"],
    ["-inf"],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside `value`."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key in keys for found in places(value[key], (*path, key))]


PLACES = places(FULL)


def test_the_full_spec_is_valid() -> None:
    spec = Spec.parse(FULL)
    assert spec.settings == Settings(decode_threads=3)
    assert spec.cache_pool.total_bytes_limit == 1000
    assert spec.schema.rank == 2


def replaced(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The full spec with another value at this place."""
    spec = copy.deepcopy(FULL)
    inside: Any = spec
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return spec


def refusal(spec: dict[str, Any]) -> InvalidSpecError | None:
    try:
        parsed = Spec.parse(spec)
        FORMATS["zarr3"].new(parsed.metadata, parsed.schema)
    except InvalidSpecError as error:
        return error
    return None


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_junk_anywhere_is_accepted_or_refused_by_its_member(place: tuple[Any, ...]) -> None:
    for junk in JUNK:
        error = refusal(replaced(place, junk))
        assert error is None or str(error.member).split(".")[0].split("[")[0] in FULL


@pytest.mark.parametrize(
    ("spec", "member"),
    [
        ("memory://\ud800/|zarr3:", "kvstore"),
        ("memory://a/|zarr3:\ud800", "path"),
        ({"driver": "zarr3", "kvstore": "memory://\ud800"}, "kvstore"),
        (replaced(("metadata", "attributes"), {"a": ["\ud800"]}), "metadata.attributes.a[0]"),
        (replaced(("metadata", "attributes"), {"\ud800": 1}), "metadata.attributes"),
    ],
)
def test_a_lone_surrogate_is_refused_by_its_member(spec: Any, member: str) -> None:
    with pytest.raises(InvalidSpecError, match="surrogate") as caught:
        Spec.parse(spec)
    assert caught.value.member == member


@pytest.mark.parametrize("seed", range(100))
def test_an_added_member_is_named(seed: int) -> None:
    source = random.Random(seed)
    spec = copy.deepcopy(FULL)
    inside: Any = spec
    for key in source.choice(PLACES)[:-1]:
        inside = inside[key]
    if isinstance(inside, dict) and "a" not in inside:
        inside["surplus"] = 1
        with pytest.raises(InvalidSpecError, match="surplus") as caught:
            Spec.parse(spec)
        assert str(caught.value.member).endswith("surplus")


@pytest.mark.parametrize(
    ("members", "member"),
    [
        ({"delete_existing": True}, "delete_existing"),
        ({"create": True, "open": True, "delete_existing": True}, "delete_existing"),
        ({"create": True, "assume_metadata": True}, "assume_metadata"),
        ({"create": True, "assume_cached_metadata": True}, "assume_cached_metadata"),
        ({"open": False}, "open"),
        ({"recheck_cached_data": None}, "recheck_cached_data"),
        ({"recheck_cached_data": "never"}, "recheck_cached_data"),
        ({"rank": 33}, "rank"),
        ({"context": {"cache": {}}}, "context.cache"),
        ({"cache_pool": "cache_pool#other"}, "cache_pool"),
        ({"kvstore": None}, "kvstore"),
        ({"driver": "n5"}, "driver"),
        ({"transform": {"input_shape": [2]}, "rank": 2}, "rank"),
        ({"transform": {"input_shape": [2], "output": [{"stride": 2}]}}, "transform.output[0].stride"),
        (
            {"transform": {"input_shape": [1], "output": [{"index_array": [1], "index_array_bounds": [2, 5]}]}},
            "transform.output[0].index_array",
        ),
        ({"context": None}, "context"),
        ({"context": {"file_io_sync": {}}}, "context.file_io_sync"),
        ({"context": {"cache_pool#a": "cache_pool#a"}, "cache_pool": "cache_pool#a"}, "context.cache_pool#a"),
        ({"context": {"s3_request_concurrency": {"limit": 0}}}, "context.s3_request_concurrency.limit"),
        ({"data_copy_concurrency": "x"}, "data_copy_concurrency"),
        ({"path": "a/../b"}, "path"),
        ({"schema": {"dimension_units": [[-1, "m"]]}}, "schema.dimension_units[0][0]"),
        ({"schema": {"chunk_layout": {"chunk": {"elements": None}}}}, "schema.chunk_layout.chunk.elements"),
    ],
)
def test_members_that_do_not_go_together_are_refused(members: dict[str, Any], member: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        Spec.parse({"driver": "zarr3", "kvstore": "memory://a/", **members})
    assert caught.value.member == member


def test_a_resource_of_a_context_may_name_another_one() -> None:
    context = {"cache_pool": "cache_pool#a", "cache_pool#a": {"total_bytes_limit": 5}}
    assert (
        Spec.parse({"driver": "zarr3", "kvstore": "memory://a/", "context": context}).cache_pool.total_bytes_limit == 5
    )


def test_a_mapping_and_a_url_with_a_driver_are_specs() -> None:
    assert is_spec({})
    assert is_spec("s3://bucket/a/|zarr3:")
    assert not is_spec("s3://bucket/a/")
    assert not is_spec("a|b")
