"""zarr-python and TensorStore write arrays of formats 2 and 3 in turn with aiozarr, whoever wrote the documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from tests.support.expected_arrays import boxed, initial
from tests.support.peer_cases import AnyArray, Selection, examples, positive_selections
from tests.support.strategies.arrays import NewArray, basic_selections, codec_chains, v2_arrays, v3_arrays
from tests.support.strategies.codecs import blosc_options, v3_bytes_codecs, v3_codecs
from tests.support.strategies.elements import Elements, number_elements, same_elements, v2_elements, v3_elements

# zarr-python warns of types and codecs that it calls experimental, which is no fault of the test's.
pytestmark = pytest.mark.filterwarnings("ignore")


class Peer(Protocol):
    """Another implementation."""

    def adopt(self, path: Path) -> None:
        """Write the document anew."""
        ...

    def write(self, path: Path, selection: Selection, values: AnyArray) -> None:
        """Open the array and write."""
        ...

    def read(self, path: Path, selection: Selection) -> Any:
        """Open the array and read."""
        ...


class ZarrPython:
    """zarr-python: it writes a document anew when an attribute is set."""

    def adopt(self, path: Path) -> None:
        zarr.open_array(path, mode="r+").attrs["adopted"] = True

    def write(self, path: Path, selection: Any, values: AnyArray) -> None:
        # Else it leaves out what compares equal to the fill value: a chunk of -0.0, or of another NaN.
        with zarr.config.set({"array.write_empty_chunks": True}):
            array = zarr.open_array(path, mode="r+")
            if array.dtype.kind == "O":
                # It takes a single element for an array: slices of length one instead.
                selection = tuple([slice(item, item + 1) if isinstance(item, int) else item for item in selection])
                values = values.reshape(np.empty(array.shape, bool)[selection].shape)
            array[selection] = values.astype(array.dtype)

    def read(self, path: Path, selection: Any) -> Any:
        array: Any = zarr.open_array(path, mode="r")
        # It hands out single bytes by way of numpy's own, which lose zeros at the end.
        return array[...][selection] if array.dtype.kind == "O" else array[selection]


class TensorStore:
    """TensorStore: it creates an array of the same metadata in the place of the one that is there."""

    def adopt(self, path: Path) -> None:
        three = (path / "zarr.json").exists()
        document = json.loads((path / ("zarr.json" if three else ".zarray")).read_bytes())
        metadata = {key: value for key, value in document.items() if key != "node_type"}
        spec = {**self._spec(path), "metadata": metadata}
        tensorstore.open(spec, create=True, delete_existing=True).result()

    def write(self, path: Path, selection: Any, values: AnyArray) -> None:
        tensorstore.open(self._spec(path)).result()[selection].write(values).result()

    def read(self, path: Path, selection: Any) -> Any:
        return tensorstore.open(self._spec(path)).result()[selection].read().result()

    def _spec(self, path: Path) -> dict[str, Any]:
        # Without caches: what was written by another must be seen.
        driver = "zarr3" if (path / "zarr.json").exists() else "zarr"
        kvstore = {"driver": "file", "path": f"{path}/"}
        return {"driver": driver, "kvstore": kvstore, "recheck_cached_data": True}


async def exchange(new: NewArray, peer: Peer, data: st.DataObject) -> None:
    """Create, let the peer write the document anew, write in turn, and compare what both read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "array"
        model = await initial(await aiozarr.create_array(path, **new.options), new)
        if data.draw(st.booleans(), "adopted"):
            peer.adopt(path)
        for ours in data.draw(st.lists(st.booleans(), min_size=1, max_size=3), "writers"):
            selection = data.draw((basic_selections if ours else positive_selections)(new.shape))
            values = data.draw(new.contents(np.empty(new.shape, bool)[selection].shape))
            model[(*selection, ...) if ... not in selection else selection] = values
            if ours:
                await (await aiozarr.open_array(path, mode="r+"))[selection].write(values)
            else:
                peer.write(path, selection, values)
        array = await aiozarr.open_array(path)
        assert same_elements(await array[...], model)
        view = data.draw(positive_selections(new.shape))
        found = peer.read(path, view)
        # A peer may hand out elements in the byte order in which they are stored.
        found = found.astype(model.dtype) if isinstance(found, np.ndarray | np.generic) else found
        assert same_elements(boxed(found, model.dtype), boxed(model[view], model.dtype))


# --- zarr-python --------------------------------------------------------------------------------------------------


CODECS_OF_ZARR_PYTHON = ("bytes", "transpose", "gzip", "zstd", "blosc", "crc32c", "vlen-utf8", "vlen-bytes")


def is_known_to_zarr_python(elements: Elements) -> bool:
    """Whether zarr-python 3.1 has the type: none of ml_dtypes, few records, few objects."""
    if elements.dtype.isbuiltin == 2:
        return False
    # It calls records `structured`, which aiozarr reads and does not write.
    if isinstance(elements.given, dict) and elements.given["name"] == "struct":
        return False
    if has_other_fields(elements.dtype):
        return False
    return elements.dtype.kind != "O" or elements.given == "bytes" or elements.filters[0]["id"] == "vlen-bytes"


def is_known_to_zarr_python_in_v3(elements: Elements) -> bool:
    """Whether it has the type by the name that format 3 gives it: there are no raw bits (`r*`)."""
    raw = elements.dtype.kind == "V" and not isinstance(elements.given, dict)
    return is_known_to_zarr_python(elements) and not raw


def works_in_zarr_python(new: NewArray) -> bool:
    """Whether zarr-python 3.1 does with such an array of format 3 what the specification says."""
    sharded = new.options["codecs"][0]["name"] == "sharding_indexed"
    # It fails to index shards without dimensions, and makes null of an empty list of dimension names.
    if not new.shape and (sharded or new.options["dimension_names"] is not None):
        return False
    # A fill value of raw bytes cannot be hashed, which it does in shards.
    return keeps_zeros(new) and not (sharded and new.elements.dtype.kind == "V")


def has_other_fields(dtype: np.dtype[Any]) -> bool:
    """Whether fields of records are arrays or records, or times, of which numcodecs can make no buffers."""
    fields = [dtype[name] for name in dtype.names or ()]
    return any([field.subdtype is not None or field.names is not None or field.kind in "mM" for field in fields])


def is_codec_of_zarr_python(codec: dict[str, Any]) -> bool:
    """Whether zarr-python 3.1 has the codec: of the core, or one of those that it takes from numcodecs."""
    name = codec["name"]
    # It looks for the byte order of single bytes behind `numcodecs.astype`.
    missing = ("numcodecs.base64", "numcodecs.astype")
    return name in CODECS_OF_ZARR_PYTHON or (name.startswith("numcodecs.") and name not in missing)


def zarr_python_chains(dtype: np.dtype[Any], ndim: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Chains of codecs that zarr-python has."""
    return v3_codecs(dtype, ndim).filter(
        lambda chain: all(map(is_codec_of_zarr_python, chain)) and not is_read_in_another_order(chain)
    )


def is_read_in_another_order(chain: list[dict[str, Any]]) -> bool:
    """Whether zarr-python hands big-endian elements to a filter of numcodecs, which takes them for native ones."""
    filtered = chain[0]["name"].startswith("numcodecs.")
    # A codec that makes bytes of numbers by itself, such as pcodec, is the whole chain.
    return filtered and any([each.get("configuration", {}).get("endian") == "big" for each in chain[1:2]])


def keeps_zeros(new: NewArray) -> bool:
    """Whether zarr-python keeps the zeros at the end of bytes: not of a fill value, nor of a single element."""
    if new.elements.dtype.kind != "O":
        return True
    return bool(new.shape) and not bytes(np.asarray(new.options.get("fill_value", b""), object).item()).endswith(b"\0")


def has_castable_default(new: NewArray) -> bool:
    """Whether zarr-python 3.1 can open the array: it cannot cast its default, 0, to records with raw bytes."""
    fields = [new.elements.dtype[name] for name in new.elements.dtype.names or ()]
    return new.options.get("fill_value") is not None or all([field.kind != "V" for field in fields])


V2_OF_ZARR_PYTHON = (
    v2_arrays(elements=v2_elements().filter(is_known_to_zarr_python)).filter(keeps_zeros).filter(has_castable_default)
)
V3_OF_ZARR_PYTHON = v3_arrays(
    elements=v3_elements().filter(is_known_to_zarr_python_in_v3),
    chains=zarr_python_chains,
    around_shards=st.lists(v3_bytes_codecs(np.dtype("u1")).filter(is_codec_of_zarr_python), max_size=1),
    listed=False,
).filter(works_in_zarr_python)


@given(V2_OF_ZARR_PYTHON, st.data())
@examples(60)
async def test_zarr_python_and_aiozarr_write_one_array_of_format_2(new: NewArray, data: st.DataObject) -> None:
    await exchange(new, ZarrPython(), data)


@given(V3_OF_ZARR_PYTHON, st.data())
@examples(60)
async def test_zarr_python_and_aiozarr_write_one_array_of_format_3(new: NewArray, data: st.DataObject) -> None:
    await exchange(new, ZarrPython(), data)


# --- TensorStore --------------------------------------------------------------------------------------------------


def is_known_to_tensorstore(elements: Elements) -> bool:
    """Whether TensorStore has the type: numbers, but not all of those that ml_dtypes has."""
    missing = ("uint2", "uint4", "float6_e2m3fn", "float6_e3m2fn", "float8_e4m3")
    # Of a fill value it takes the upper byte as float32 for the exponent.
    missing = (*missing, "float8_e8m0fnu")
    return (elements.dtype.kind in "biufc" or elements.dtype.isbuiltin == 2) and elements.dtype.name not in missing


def is_known_to_tensorstore_in_v2(elements: Elements) -> bool:
    """Whether it has the type in format 2 too, where it writes fill values of 4 bits as base64."""
    return is_known_to_tensorstore(elements) and elements.dtype.name != "float4_e2m1fn"


def without_names(new: NewArray) -> NewArray:
    """The array without dimension names, which TensorStore wants to be different from each other."""
    return replace(new, options={**new.options, "dimension_names": None})


def tensorstore_v2_codecs(dtype: np.dtype[Any], _: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A compressor that TensorStore has; it has no filters."""
    named: list[dict[str, Any] | None] = [None, {"id": "zlib", "level": 1}, {"id": "gzip", "level": 1}]
    named += [{"id": "bz2", "level": 1}, {"id": "zstd", "level": 1}]
    blosc = blosc_options().map(lambda options: {"id": "blosc", **options})
    return (st.sampled_from(named) | blosc).map(lambda compressor: {"compressor": compressor})


V2_OF_TENSORSTORE = v2_arrays(
    elements=number_elements().filter(is_known_to_tensorstore_in_v2), codecs=tensorstore_v2_codecs
)
V3_OF_TENSORSTORE = v3_arrays(
    elements=number_elements().filter(is_known_to_tensorstore),
    chains=codec_chains,
    # It refuses shards that are compressed or checked as a whole.
    around_shards=st.just([]),
    listed=False,
).map(without_names)


@given(V2_OF_TENSORSTORE, st.data())
@examples(60)
async def test_tensorstore_and_aiozarr_write_one_array_of_format_2(new: NewArray, data: st.DataObject) -> None:
    await exchange(new, TensorStore(), data)


@given(V3_OF_TENSORSTORE, st.data())
@examples(60)
async def test_tensorstore_and_aiozarr_write_one_array_of_format_3(new: NewArray, data: st.DataObject) -> None:
    await exchange(new, TensorStore(), data)
