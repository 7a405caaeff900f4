"""Two implementations that write the same array in turn on the local disk, and must then read equal values.

Raw bits (`r*`) are left out: zarr-python has no such type, and TensorStore has another form of their fill value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st

import aiozarr
from tests.support.peer_cases import AnyArray, Case, Draw, Selection, cases, contents, positive_selections, same_bits
from tests.support.strategies.arrays import basic_selections


@dataclass(frozen=True)
class Facts:
    """An implementation's description of an array: everything but its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    fill_value: AnyArray
    dimension_names: tuple[str | None, ...] | None
    attributes: dict[str, Any]

    def check(self, case: Case) -> None:
        """Compare it with the case."""
        assert (self.shape, self.dtype, self.chunks) == (case.shape, case.dtype, case.chunks)
        assert same_bits(self.fill_value, case.fill_value)
        assert self.dimension_names == case.dimension_names
        assert self.attributes == case.attributes


class Peer(Protocol):
    """Another implementation; its handles are its own affair."""

    def create(self, path: Path, case: Case) -> None:
        """Create the array."""
        ...

    def write(self, path: Path, selection: Selection, values: AnyArray) -> None:
        """Open the array and write."""
        ...

    def read(self, path: Path, selection: Selection) -> AnyArray:
        """Open the array and read."""
        ...

    def facts(self, path: Path) -> Facts:
        """Open the array and return its description."""
        ...


@dataclass(frozen=True)
class Step:
    """One write: by us or by the peer."""

    ours: bool
    selection: Selection
    values: AnyArray


@dataclass(frozen=True)
class Exchange:
    """An array, its creator, the writes of both implementations, and the selections read at the end."""

    case: Case
    ours: bool
    steps: list[Step]
    our_view: Selection
    their_view: Selection


@st.composite
def exchanges(draw: Draw, arrays: st.SearchStrategy[Case] | None = None, *, writers: str = "both") -> Exchange:
    """Creators and writers are `ours`, `theirs` or `both`."""
    case = draw(cases() if arrays is None else arrays)
    who = st.booleans() if writers == "both" else st.just(writers == "ours")
    steps = []
    for ours in draw(st.lists(who, min_size=1, max_size=3)):
        selections = basic_selections(case.shape) if ours else positive_selections(case.shape)
        selection = draw(selections | st.just((...,)))
        shape = np.empty(case.shape, bool)[selection].shape
        steps.append(Step(ours, selection, draw(contents(shape, case.dtype, case.fill_value))))
    views = draw(basic_selections(case.shape)), draw(positive_selections(case.shape))
    return Exchange(case, draw(who), steps, *views)


async def carry_out(exchange: Exchange, peer: Peer, folder: Path) -> None:
    """Create, write in turn, and compare the values that both implementations read with numpy's."""
    path, case, model = folder / "array", exchange.case, exchange.case.empty()
    if exchange.ours:
        await create(path, case)
    else:
        peer.create(path, case)
    for step in exchange.steps:
        model[step.selection] = step.values
        if step.ours:
            array = await aiozarr.open_array(path, mode="r+")
            await array[step.selection].write(step.values)
        else:
            peer.write(path, step.selection, step.values)
    array = await aiozarr.open_array(path)
    assert same_bits(await array[...], model)
    assert same_bits(await array[exchange.our_view], model[exchange.our_view])
    assert same_bits(peer.read(path, (...,)), model)
    assert same_bits(peer.read(path, exchange.their_view), model[exchange.their_view])
    our_facts(array).check(case)
    peer.facts(path).check(case)


async def create(path: Path, case: Case) -> aiozarr.Array:
    """Create the array by the public interface."""
    return await aiozarr.create_array(
        path,
        shape=case.shape,
        dtype=case.dtype,
        chunks=case.chunks,
        codecs=case.codecs,
        fill_value=case.fill_value,
        dimension_names=case.dimension_names,
        attributes=case.attributes,
        chunk_key_encoding=case.key_encoding,
    )


def our_facts(array: aiozarr.Array) -> Facts:
    """Return aiozarr's description of the array."""
    return Facts(
        array.shape,
        array.dtype,
        array.chunks if array.shards is None else array.shards,
        array.metadata.fill_value,
        array.dimension_names,
        dict(array.attrs),
    )
