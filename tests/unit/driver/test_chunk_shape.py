"""The choice of chunk shapes gives TensorStore's shapes, and better ones where a write length has no divisors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aiozarr.driver.chunk_layout import ChunkLayout
from aiozarr.driver.json_members import SpecConflictError
from aiozarr.driver.new_array import choose_chunk_shapes, nearest_divisor, nearest_multiple
from aiozarr.errors import InvalidSpecError
from tests.support.tensorstore_pairs import pairs


def choose(layout: dict[str, Any], shape: list[int], *, exact: bool = False) -> dict[str, list[int]]:
    parsed = ChunkLayout.parse(layout, "chunk_layout")
    chosen = choose_chunk_shapes(parsed.read, parsed.write, shape, exact=exact)
    return {"read_chunk": list(chosen.read), "write_chunk": list(chosen.write)}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("pair", pairs("layout_fuzz"), ids=lambda pair: str(pair["spec"])[:60])
def test_random_constraints_give_the_recorded_shapes(pair: Any, exact: bool) -> None:
    spec, result = pair["spec"], pair["result"]
    if "error" in result:
        with pytest.raises((InvalidSpecError, SpecConflictError)):
            choose(spec["chunk_layout"], spec["shape"], exact=exact)
    else:
        assert choose(spec["chunk_layout"], spec["shape"], exact=exact) == result


def test_a_prime_write_length_gives_single_elements_only_if_exactness_is_asked_for() -> None:
    layout = {"write_chunk": {"shape": [997, 997, 997]}}
    assert choose(layout, [1000, 2000, 3000], exact=True)["read_chunk"] == [1, 1, 1]
    assert choose(layout, [1000, 2000, 3000])["read_chunk"] == [1, 997, 997]


def test_hard_shapes_that_do_not_divide_are_refused_with_the_dimension() -> None:
    with pytest.raises(InvalidSpecError, match="dimension 1") as caught:
        choose({"read_chunk": {"shape": [2, 3]}, "write_chunk": {"shape": [4, 4]}}, [8, 8])
    assert caught.value.member == "schema.chunk_layout.read_chunk.shape[1]"


@pytest.mark.parametrize(("length", "wanted", "found"), [(12, 5, 4), (12, 20, 12), (7, 3, 1), (10, 3, 2), (9, 4, 3)])
def test_the_nearest_divisor_is_the_smaller_of_two(length: int, wanted: int, found: int) -> None:
    assert nearest_divisor(length, wanted) == found


@pytest.mark.parametrize(("length", "wanted", "found"), [(5, 12, 10), (5, 13, 15), (4, 6, 4), (8, 3, 8)])
def test_the_nearest_multiple_is_the_smaller_of_two(length: int, wanted: int, found: int) -> None:
    assert nearest_multiple(length, wanted) == found


@pytest.mark.parametrize(
    ("chunk", "lengths"),
    [
        ({"aspect_ratio": [1, 1e19, 1], "elements": 12345}, [1000] * 3),
        ({"aspect_ratio": [1, 1e-19, 1], "elements": 12345}, [1000] * 3),
        ({"aspect_ratio": [1e19, 2, 1], "elements": 12345}, [1000] * 3),
        ({"elements": 2**61}, [2**61, 3]),
        ({"aspect_ratio": [2.0**64, 2.0**-64], "elements": 2**40}, [2**40] * 2),
    ],
)
def test_extreme_constraints_give_the_shapes_of_tensorstore(chunk: dict[str, Any], lengths: list[int]) -> None:
    ts = pytest.importorskip("tensorstore")
    schema = {"dtype": "uint8", "domain": {"shape": lengths}, "chunk_layout": {"chunk": chunk}}
    spec = {"driver": "zarr3", "kvstore": "memory://", "create": True, "schema": schema}
    found = ts.open(spec).result().chunk_layout.to_json()
    assert choose({"chunk": chunk}, lengths, exact=True)["write_chunk"] == found["write_chunk"]["shape"]


@pytest.mark.parametrize(
    "ratio", [1e308, 5e-324, -1, 10**400, 10**5000, float("inf"), float("nan"), True], ids=lambda _: ""
)
def test_a_ratio_that_no_lengths_have_is_refused(ratio: float) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        choose({"chunk": {"aspect_ratio": [ratio, 2, 1]}}, [1000] * 3)
    assert caught.value.member == "chunk_layout.chunk.aspect_ratio[0]"


def test_divisors_of_long_primes_are_found_without_trying_each_number() -> None:
    assert nearest_divisor(2**31 - 1, 50_000_000) == 1
    assert nearest_divisor(2**31 - 1, 2**31 - 2) == 2**31 - 1
    assert nearest_divisor(2**61 - 1, 50_000_000) == 1
    assert nearest_divisor(6 * (2**31 - 1), 2**31) == 2**31 - 1
    layout = {"write_chunk": {"shape": [2**31 - 1] * 16}}
    assert choose(layout, [2**32] * 16, exact=True)["read_chunk"] == [1] * 16


def random_layout(source: random.Random) -> tuple[dict[str, Any], list[int]]:
    rank = source.randint(1, 4)
    shape = [source.choice([1, 2, 3, 7, 10, 50, 100, 256, 1000, 5000, 100_000]) for _ in range(rank)]
    layout: dict[str, Any] = {}
    for usage in ("chunk", "read_chunk", "write_chunk"):
        grid: dict[str, Any] = {}
        if source.random() < 0.3:
            soft = source.choice(["", "_soft_constraint"])
            grid[f"shape{soft}"] = [source.choice([0, -1, 1, 5, 8, 10, 64, 100]) for _ in range(rank)]
        if source.random() < 0.3:
            grid["aspect_ratio"] = [source.choice([0, 0.5, 1, 2, 3]) for _ in range(rank)]
        if source.random() < 0.3:
            grid["elements"] = source.choice([1, 100, 4096, 100_000, 10_000_000])
        if grid and source.random() < 0.8:
            layout[usage] = grid
    return layout, shape


@pytest.mark.parametrize("seed", range(60))
def test_random_constraints_give_the_shapes_of_tensorstore(seed: int) -> None:
    ts = pytest.importorskip("tensorstore")
    layout, shape = random_layout(random.Random(seed))
    schema = {"dtype": "uint8", "domain": {"shape": shape}, "chunk_layout": layout}
    try:
        spec = {"driver": "zarr3", "kvstore": "memory://", "create": True, "schema": schema}
        found = ts.open(spec).result().chunk_layout.to_json()
    except ValueError:
        with pytest.raises((InvalidSpecError, SpecConflictError)):
            choose(layout, shape, exact=True)
        return
    assert choose(layout, shape, exact=True) == {
        "read_chunk": found["read_chunk"]["shape"],
        "write_chunk": found["write_chunk"]["shape"],
    }
