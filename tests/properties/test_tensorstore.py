"""TensorStore reads what aiozarr writes, and the reverse, whoever created the array."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tensorstore
from hypothesis import given

from aiozarr.metadata import DataType
from tests.support.peer_cases import AnyArray, Case, Selection, cases, examples
from tests.support.peer_exchange import Exchange, Facts, carry_out, exchanges


def with_labels(case: Case) -> Case:
    """The array with dimension names that TensorStore takes: different from each other, and none instead of empty."""
    names = tuple(name or None for name in case.dimension_names or ())
    unlike = len({*names} - {None}) == len(names) - names.count(None)
    return replace(case, dimension_names=names if any(names) and unlike else None)


# TensorStore refuses shards that are compressed or checked as a whole.
ARRAYS = cases(around_shards=("transpose",)).map(with_labels)


class TensorStore:
    """TensorStore as a peer, by its drivers `zarr3` and `file`."""

    def create(self, path: Path, case: Case) -> None:
        name, separator = case.key_encoding
        data_type = DataType.from_numpy(case.dtype)
        metadata: dict[str, Any] = {
            "shape": case.shape,
            "data_type": data_type.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": case.chunks}},
            "chunk_key_encoding": {"name": name, "configuration": {"separator": separator}},
            "fill_value": data_type.render_fill_value(case.fill_value),
            "codecs": case.codecs,
            "attributes": case.attributes,
        }
        if case.dimension_names is not None:
            metadata["dimension_names"] = case.dimension_names
        tensorstore.open(self._spec(path, metadata=metadata), create=True).result()

    def write(self, path: Path, selection: Selection, values: AnyArray) -> None:
        tensorstore.open(self._spec(path)).result()[selection].write(values).result()

    def read(self, path: Path, selection: Selection) -> AnyArray:
        values: AnyArray = tensorstore.open(self._spec(path)).result()[selection].read().result()
        return values

    def facts(self, path: Path) -> Facts:
        array = tensorstore.open(self._spec(path)).result()
        metadata = array.spec().to_json()["metadata"]
        labels = tuple(label or None for label in array.domain.labels)
        return Facts(
            array.shape,
            array.dtype.numpy_dtype,
            tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
            np.asarray(array.fill_value),
            labels if any(labels) else None,
            metadata.get("attributes", {}),
        )

    def _spec(self, path: Path, **members: Any) -> dict[str, Any]:
        # Without caches: what was written by another must be seen.
        kvstore = {"driver": "file", "path": f"{path}/"}
        return {"driver": "zarr3", "kvstore": kvstore, "recheck_cached_data": True, **members}


@given(exchanges(ARRAYS, writers="ours"))
@examples(60)
async def test_tensorstore_reads_what_aiozarr_writes(exchange: Exchange) -> None:
    with TemporaryDirectory() as folder:
        await carry_out(exchange, TensorStore(), Path(folder))


@given(exchanges(ARRAYS, writers="theirs"))
@examples(60)
async def test_aiozarr_reads_what_tensorstore_writes(exchange: Exchange) -> None:
    with TemporaryDirectory() as folder:
        await carry_out(exchange, TensorStore(), Path(folder))


@given(exchanges(ARRAYS))
@examples(60)
async def test_the_two_write_one_array_in_turn(exchange: Exchange) -> None:
    with TemporaryDirectory() as folder:
        await carry_out(exchange, TensorStore(), Path(folder))
