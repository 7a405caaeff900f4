"""zarr-python reads what aiozarr writes, and the reverse, whoever created the array."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given

from aiozarr.metadata import DataType
from tests.support.peer_cases import AnyArray, Case, cases, examples
from tests.support.peer_exchange import Exchange, Facts, carry_out, exchanges

# zarr-python warns of types and codecs that it calls experimental, which is no fault of the test's.
pytestmark = pytest.mark.filterwarnings("ignore")


def has_other_nan(case: Case) -> bool:
    """Whether the fill value is a NaN whose bits are not those of the name `NaN`."""
    return "0x" in str(DataType.from_numpy(case.dtype).render_fill_value(case.fill_value))


def is_taken(case: Case) -> bool:
    """Whether zarr-python 3.1 does with such an array what the specification says."""
    # It fails to index shards without dimensions, and makes null of an empty list of dimension names.
    flat = not case.shape and (case.codecs[0]["name"] == "sharding_indexed" or case.dimension_names is not None)
    # By way of a Python float, the bits of a NaN of two bytes are lost.
    return not flat and not (case.dtype == np.float16 and has_other_nan(case))


def is_kept(exchange: Exchange) -> bool:
    """Whether zarr-python 3.1 stores the fill value bit for bit: it writes every NaN by that name."""
    return exchange.ours or not has_other_nan(exchange.case)


# It holds the inner chunk shape against the shard as it is before it is transposed.
ARRAYS = cases(around_shards=("crc32c", "gzip")).filter(is_taken)


class ZarrPython:
    """zarr-python as a peer."""

    def create(self, path: Path, case: Case) -> None:
        name, separator = case.key_encoding
        key_encoding: Any = {"name": name, "separator": separator}
        zarr.create(
            case.shape,
            store=path,
            zarr_format=3,
            chunks=case.chunks,
            dtype=case.dtype,
            codecs=case.codecs,
            fill_value=case.fill_value[()],
            dimension_names=case.dimension_names,
            attributes=case.attributes,
            chunk_key_encoding=key_encoding,
        )

    def write(self, path: Path, selection: Any, values: AnyArray) -> None:
        # Else it leaves out what compares equal to the fill value: a chunk of -0.0, or of another NaN.
        with zarr.config.set({"array.write_empty_chunks": True}):
            zarr.open_array(path, mode="r+")[selection] = values

    def read(self, path: Path, selection: Any) -> AnyArray:
        return np.asarray(zarr.open_array(path, mode="r")[selection])

    def facts(self, path: Path) -> Facts:
        array = zarr.open_array(path, mode="r")
        metadata: Any = array.metadata
        return Facts(
            array.shape,
            array.dtype,
            metadata.chunk_grid.chunk_shape,
            np.asarray(metadata.fill_value, array.dtype),
            metadata.dimension_names,
            array.attrs.asdict(),
        )


@given(exchanges(ARRAYS, writers="ours"))
@examples(40)
async def test_zarr_python_reads_what_aiozarr_writes(exchange: Exchange) -> None:
    with TemporaryDirectory() as folder:
        await carry_out(exchange, ZarrPython(), Path(folder))


@given(exchanges(ARRAYS, writers="theirs").filter(is_kept))
@examples(40)
async def test_aiozarr_reads_what_zarr_python_writes(exchange: Exchange) -> None:
    with TemporaryDirectory() as folder:
        await carry_out(exchange, ZarrPython(), Path(folder))


@given(exchanges(ARRAYS).filter(is_kept))
@examples(40)
async def test_the_two_write_one_array_in_turn(exchange: Exchange) -> None:
    with TemporaryDirectory() as folder:
        await carry_out(exchange, ZarrPython(), Path(folder))
