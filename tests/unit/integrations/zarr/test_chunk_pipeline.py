"""zarr-python's arrays read and write through the engine, and by their own pipeline what aiozarr cannot do."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.api.asynchronous
from zarr.core.buffer import BufferPrototype, cpu
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.storage import LocalStore, LoggingStore, MemoryStore

import aiozarr
from aiozarr.integrations.zarr import CodecPipeline, Store, enable, usage
from aiozarr.testing.fakes import FakeStore

VALUES = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)


@contextmanager
def taken(*, reads: int = 0, writes: int = 0, **fallbacks: int) -> Iterator[None]:
    """Check what the pipeline was used for meanwhile."""
    before = usage()
    yield
    after = usage()
    assert (after.reads - before.reads, after.writes - before.writes) == (reads, writes)
    new = {reason: count - before.fallbacks.get(reason, 0) for reason, count in after.fallbacks.items()}
    assert {reason: count for reason, count in new.items() if count} == {
        reason.replace("_", " "): count for reason, count in fallbacks.items()
    }


def new_array(store: Any = None, **described: Any) -> zarr.Array[Any]:
    options = {"shape": VALUES.shape, "chunks": (10, 10), "dtype": VALUES.dtype, "fill_value": -1, **described}
    return zarr.create_array({} if store is None else store, **options)


def pipeline_of(array: Any) -> Any:
    return array.async_array.codec_pipeline


def test_the_class_has_the_name_of_the_configuration() -> None:
    assert f"{CodecPipeline.__module__}.{CodecPipeline.__qualname__}" == zarr.config.get("codec_pipeline.path")
    with enable():
        pass
    assert type(pipeline_of(new_array())) is CodecPipeline


@pytest.mark.parametrize("store", ["memory", "local", "logging", "aiozarr"])
@pytest.mark.parametrize("described", [{}, {"zarr_format": 2}, {"shards": (20, 20)}, {"order": "F", "zarr_format": 2}])
def test_every_kind_of_selection_reads_and_writes_as_numpy_does(
    store: str, described: dict[str, Any], tmp_path: Path
) -> None:
    stores = {
        "memory": MemoryStore,
        "local": lambda: LocalStore(tmp_path),
        "logging": lambda: LoggingStore(MemoryStore(), log_level="CRITICAL"),
        "aiozarr": lambda: Store(aiozarr.stores.MemoryStore()),
    }
    array, expected = new_array(stores[store](), **described), np.full_like(VALUES, -1)
    rows, columns = [17, 2, 9], [0, 29, 4]
    mask = VALUES % 7 == 0
    with taken(reads=7, writes=6):
        assert np.array_equal(array[...], expected)
        array[...] = expected[...] = VALUES
        array[3:17:4, 5] = expected[3:17:4, 5] = -5
        array.oindex[rows, columns] = -6
        expected[np.ix_(rows, columns)] = -6
        array.oindex[rows, 7] = expected[rows, 7] = [1, 2, 3]
        array.vindex[rows, columns] = expected[rows, columns] = [4, 5, 6]
        array.set_mask_selection(mask, -8)
        expected[mask] = -8
        assert np.array_equal(array[...], expected)
        assert np.array_equal(array[2:19:3, 4], expected[2:19:3, 4])
        assert np.array_equal(array.oindex[rows, 3:9], expected[rows, 3:9])
        assert np.array_equal(array.oindex[rows, 7], expected[rows, 7])
        assert np.array_equal(array.vindex[rows, columns], expected[rows, columns])
        assert np.array_equal(array.get_mask_selection(mask), expected[mask])


@pytest.mark.parametrize("described", [{}, {"shards": (10, 10), "chunks": (5, 5)}])
def test_whole_chunks_are_not_read_and_those_across_the_edge_once(described: dict[str, Any]) -> None:
    inner = FakeStore(latency=0)
    array = new_array(Store(inner), shape=(25, 30), **described)
    inner.reset()
    array[...] = np.ones((25, 30), np.int32)
    # The last rows may have grown through another handle. No chunk crosses the edge of the columns.
    across = [(f"c/2/{column}", "fetch") for column in range(3)]
    stored = [(f"c/{row}/{column}", "set") for row in range(3) for column in range(3)]
    assert sorted((call.key, call.operation) for call in inner.calls) == sorted(across + stored)
    inner.reset()
    assert (array[...] == 1).all()
    fetches = [call.key for call in inner.calls if call.operation == "fetch"]
    assert sorted(set(fetches)) == [key for key, _ in stored]


@pytest.mark.parametrize("described", [{}, {"chunks": (2,), "shards": (4,)}, {"zarr_format": 2}])
@pytest.mark.parametrize("store", ["memory", "local", "aiozarr"])
def test_an_older_handle_keeps_what_another_one_has_appended(
    store: str, described: dict[str, Any], tmp_path: Path
) -> None:
    target = {"memory": MemoryStore(), "local": LocalStore(tmp_path), "aiozarr": Store(aiozarr.stores.MemoryStore())}
    options: dict[str, Any] = {"shape": (6,), "chunks": (4,), "dtype": "i4", "fill_value": 0, **described}
    array = zarr.create_array(target[store], **options)
    array[0:1] = 1
    other = zarr.open_array(target[store], mode="r+")
    other.append(np.array([9, 9], "i4"))
    array[4:6] = 2
    assert array.shape == (6,)
    assert other[...].tolist() == [1, 0, 0, 0, 2, 2, 9, 9]


def test_an_array_that_grows_is_read_by_its_new_shape() -> None:
    array = new_array(shards=(20, 20))
    array[...] = VALUES
    array.append(VALUES)
    array.resize((40, 55))
    assert np.array_equal(array[:, :30], np.concatenate([VALUES, VALUES]))
    assert (array[:, 30:] == -1).all()
    array.resize((10, 10))
    assert np.array_equal(array[...], VALUES[:10, :10])


def test_a_shard_at_the_end_keeps_what_it_has_beyond_the_array() -> None:
    array = zarr.create_array({}, shape=(4,), chunks=(2,), shards=(4,), dtype="i2", fill_value=0)
    array[...] = [1, 2, 3, 4]
    array.resize((2,))
    array[...] = [9, 9]
    array.resize((4,))
    assert array[...].tolist() == [9, 9, 3, 4]


@pytest.mark.parametrize("stored", [True, False])
def test_empty_chunks_are_stored_as_the_array_is_configured(stored: bool) -> None:
    array = new_array(config={"write_empty_chunks": stored})
    array[...] = VALUES
    array[...] = -1
    assert array.nchunks_initialized == (6 if stored else 0)


def test_arrays_without_dimensions_and_without_elements() -> None:
    scalar = zarr.create_array({}, shape=(), dtype="f8", fill_value=1.5)
    assert scalar[...] == 1.5
    scalar[...] = 2.5
    assert scalar[()] == 2.5
    empty = zarr.create_array({}, shape=(0, 4), chunks=(1, 2), dtype="i4")
    assert empty[...].shape == (0, 4)
    empty[...] = 1


@pytest.mark.parametrize("dtype", [">i4", ">f8", "str", "datetime64[s]", "S5", "complex64"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_data_types_of_zarr_python(dtype: Any, zarr_format: Any) -> None:
    values = np.arange(12).astype("U" if dtype == "str" else dtype)
    kind = str if dtype == "str" else values.dtype
    array = zarr.create_array({}, shape=(12,), chunks=(5,), dtype=kind, zarr_format=zarr_format)
    with taken(reads=2, writes=1):
        array[...] = values
        assert array[...].tolist() == values.tolist()
        assert array.oindex[[11, 3]].tolist() == values[[11, 3]].tolist()


@pytest.mark.parametrize("name", ["zlib", "gzip", "bz2", "lzma", "zstd", "lz4", "blosc"])
@pytest.mark.filterwarnings("ignore")
def test_texts_have_no_bound_of_decoded_bytes(name: str) -> None:
    compressor = numcodecs.get_codec({"id": name})
    array = zarr.create_array({}, shape=(3,), chunks=(2,), dtype=str, zarr_format=2, compressors=compressor)
    array[...] = np.array(["a", "", "wind"])
    with taken(reads=1):
        assert array[...].tolist() == ["a", "", "wind"]


def test_an_output_of_the_other_byte_order_is_filled() -> None:
    array = new_array()
    array[...] = VALUES
    out = cpu.NDBuffer.from_numpy_array(np.empty(VALUES.shape, ">i4"))
    with taken(reads=1):
        array.get_basic_selection(..., out=out)
    assert np.array_equal(out.as_numpy_array(), VALUES)


async def test_arrays_of_any_event_loop() -> None:
    array = await zarr.api.asynchronous.create_array({}, shape=(20, 30), chunks=(10, 10), dtype="i4")
    logged = await zarr.api.asynchronous.create_array(
        LoggingStore(MemoryStore(), log_level="CRITICAL"), shape=(20, 30), chunks=(10, 10), dtype="i4"
    )
    with taken(reads=2, writes=2):
        await asyncio.gather(array.setitem(..., VALUES), logged.setitem(..., VALUES))
        for each in await asyncio.gather(array.getitem(...), logged.getitem(...)):
            assert np.array_equal(each, VALUES)


# --- what is left to zarr-python ------------------------------------------------------------------------------------


class NegatedBytes(zarr.codecs.BytesCodec):
    """A codec of a user, under a name that aiozarr knows."""


def test_codecs_of_others_are_left_to_zarr_python(caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG, "aiozarr.integrations.zarr"), taken(codec=1):
        array = new_array(serializer=NegatedBytes())
    assert type(pipeline_of(array)) is BatchedCodecPipeline
    assert "NegatedBytes is not part of zarr-python" in caplog.text
    array[...] = VALUES
    assert np.array_equal(array[...], VALUES)


@pytest.mark.filterwarnings("ignore")
def test_metadata_that_aiozarr_refuses_are_left_to_zarr_python() -> None:
    from numcodecs import Pickle

    with taken(metadata=1):
        array = zarr.create(store={}, shape=(3,), dtype="i4", zarr_format=2, filters=[Pickle()], compressor=None)
    assert type(pipeline_of(array)) is BatchedCodecPipeline


def test_buffers_of_another_kind_are_left_to_zarr_python() -> None:
    class Other(cpu.NDBuffer):
        pass

    array = new_array()
    array[...] = VALUES
    prototype = BufferPrototype(buffer=cpu.Buffer, nd_buffer=Other)
    with taken(buffers_of_another_kind=1):
        assert np.array_equal(array.get_basic_selection(..., prototype=prototype), VALUES)


def test_values_of_another_shape_raise_what_zarr_python_raises() -> None:
    array = new_array()
    with taken(shape_of_the_values=1), pytest.raises((ValueError, IndexError)):
        array[...] = np.ones((3, 3), np.int32)


# --- contracts of zarr-python ---------------------------------------------------------------------------------------


def test_inner_chunks_of_its_sharding_codec_get_its_own_pipeline() -> None:
    assert type(CodecPipeline.from_codecs([zarr.codecs.BytesCodec()])) is BatchedCodecPipeline


def test_reading_tells_which_chunks_are_stored_where_zarr_python_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, original = [], CodecPipeline.read

    async def listening(self: Any, *args: Any, **options: Any) -> Any:
        answers.append(await original(self, *args, **options))
        return answers[-1]

    monkeypatch.setattr(CodecPipeline, "read", listening)
    array = new_array()
    array[:10, :10] = 1
    array[:10, :20]
    expected = ({"status": "present"}, {"status": "missing"})
    assert answers == [expected if hasattr(zarr.abc.codec, "GetResult") else None]


def test_a_read_only_store_refuses_writes(tmp_path: Path) -> None:
    new_array(LocalStore(tmp_path))
    array = zarr.open_array(LocalStore(tmp_path, read_only=True), mode="r")
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 1


def test_damaged_chunks_are_value_errors_and_errors_of_aiozarr() -> None:
    store = MemoryStore()
    array = new_array(store)
    array[...] = VALUES
    store._store_dict["c/0/0"] = cpu.Buffer.from_bytes(b"no zstd")
    with pytest.raises(ValueError, match="c/0/0") as caught:
        array[...]
    assert isinstance(caught.value, aiozarr.CodecError)


def test_pipelines_are_pickled_and_compared_with_their_arrays(tmp_path: Path) -> None:
    array = new_array(LocalStore(tmp_path))
    array[...] = VALUES
    again = pickle.loads(pickle.dumps(array))
    assert again.async_array == array.async_array
    assert type(pipeline_of(again)) is CodecPipeline
    assert np.array_equal(again[...], VALUES)
    assert pipeline_of(new_array()) == pipeline_of(array)
    assert pipeline_of(new_array(compressors=None)) != pipeline_of(array)
    assert pipeline_of(array) != "a pipeline"


def test_settings_come_from_zarr_pythons_configuration() -> None:
    array = new_array(Store(FakeStore(latency=0)))
    with zarr.config.set({"aiozarr.max_requests": 3}):
        array[...] = VALUES
    with zarr.config.set({"aiozarr.max_request": 3}), pytest.raises(TypeError, match="max_request"):
        array[...]


def test_record_counts_what_zarr_python_reads() -> None:
    array = new_array()
    with aiozarr.record() as report:
        array[...] = VALUES
        array[...]
    assert report.chunks == 12


def test_the_environment_chooses_it_and_nothing_is_imported_before() -> None:
    program = (
        "import sys, aiozarr.integrations.zarr\n"
        "assert not [name for name in ('aiozarr.engine', 'zarr', 'aiohttp', 'numpy') if name in sys.modules]\n"
        "from aiozarr.integrations.zarr import CodecPipeline\n"
        "assert 'aiozarr.engine' not in sys.modules and 'aiohttp' not in sys.modules\n"
        "import zarr, zarr.registry\n"
        "zarr.registry.register_pipeline(CodecPipeline)\n"
        "array = zarr.create_array({}, shape=(4,), dtype='i4')\n"
        "print(type(array.async_array.codec_pipeline).__qualname__, zarr.config.get('aiozarr.retries'))\n"
    )
    environment = {
        **os.environ,
        "ZARR_CODEC_PIPELINE__PATH": "aiozarr.integrations.zarr.CodecPipeline",
        "ZARR_AIOZARR__RETRIES": "2",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["CodecPipeline", "2"], done.stderr


@pytest.mark.parametrize("layout", [{}, {"shards": (20, 30)}], ids=["plain", "sharded"])
def test_bools_of_zarr_python_are_stored_as_0_and_1(layout: dict[str, Any]) -> None:
    raw = (VALUES % 5).astype("u1")
    store = MemoryStore()
    with enable(), taken(writes=1):
        new_array(store, dtype="bool", fill_value=False, compressors=None, **layout)[...] = raw.view(bool)
    stored = zarr.open_array(store)[...]
    assert np.array_equal(np.asarray(stored).view("u1"), raw != 0)
