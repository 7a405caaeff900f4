"""Random views of a `TensorView` have the values and the domain that TensorStore gives them."""

from __future__ import annotations

import random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tensorstore as ts
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from tests.support.peer_cases import examples


def random_step(source: random.Random, view: Any) -> Any:
    """A selection of the view, by its domain."""
    items: list[Any] = []
    for low, length in zip(view.domain.inclusive_min, view.domain.shape, strict=True):
        kind = source.choice(["all", "slice", "index", "array", "new"])
        high = low + length
        if kind == "new" and len(items) < 4:
            items.append(None)
            kind = "all"
        if kind == "all" or not length:
            items.append(slice(None))
        elif kind == "slice":
            start, stop = sorted(source.randint(low, high) for _ in range(2))
            step = source.choice([1, 1, 2, 3])
            reverse = source.random() < 0.3 and stop > start
            items.append(slice(stop - 1, start - 1, -step) if reverse else slice(start, stop, step))
        elif kind == "index":
            items.append(source.randrange(low, high))
        else:
            items.append([source.randrange(low, high) for _ in range(3)])
    return tuple(items)


def apply(source: random.Random, ours: Any, theirs: Any) -> tuple[Any, Any]:
    kind = source.choice(["index", "index", "oindex", "vindex", "translate", "label", "transpose"])
    if kind == "translate":
        numbers = [source.choice([None, source.randint(-5, 5)]) for _ in range(ours.rank)]
        name = source.choice(["translate_to", "translate_by", "translate_backward_by"])
        return (getattr(ours, name)[numbers], getattr(theirs, name)[numbers]) if ours.rank else (ours, theirs)
    if kind == "label":
        labels = [source.choice(["", f"d{i}"]) for i in range(ours.rank)]
        return (ours.label[labels], theirs.label[labels]) if ours.rank else (ours, theirs)
    if kind == "transpose":
        order = list(range(ours.rank))
        source.shuffle(order)
        return ours.transpose(order), theirs.transpose(order)
    step = random_step(source, ours)
    if kind == "index":
        return ours[step], theirs[step]
    return getattr(ours, kind)[step], getattr(theirs, kind)[step]


@given(st.randoms(use_true_random=False))
@examples(60)
async def test_random_views_have_the_values_and_domains_of_tensorstore(source: random.Random) -> None:
    with TemporaryDirectory() as folder:
        await compare_views(source, folder)


async def compare_views(source: random.Random, folder: str) -> None:
    """Make the same views of one array by aiozarr and by TensorStore, read them and write them."""
    shape = [source.randint(1, 7) for _ in range(source.randint(1, 3))]
    chunks = [source.randint(1, length) for length in shape]
    grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    metadata = {"shape": shape, "data_type": "int32", "chunk_grid": grid}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/"}}
    ours: Any = await aiozarr.open({**spec, "create": True, "metadata": metadata})
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    await ours.write(values)
    theirs = ts.open(spec).result()
    assert theirs.read().result().tolist() == values.tolist()
    for _ in range(source.randint(1, 4)):
        ours, theirs = apply(source, ours, theirs)
    assert ours.domain.to_json() == theirs.domain.to_json()
    assert ours.spec()["transform"] == theirs.spec().to_json()["transform"]
    assert ours.chunk_layout.to_json() == theirs.chunk_layout.to_json()
    expected = theirs.read().result()
    found = await ours
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()
    again = await aiozarr.open(ours.spec())
    assert again.domain == ours.domain
    assert (await again).tolist() == expected.tolist()
    if ours.size and source.random() < 0.5:
        await ours.write(-found)
        assert (await ours).tolist() == (-found).tolist()
        assert theirs.read().result().tolist() == (-found).tolist()
