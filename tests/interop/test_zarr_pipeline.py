"""zarr-python's stores of S3 below its arrays: aiozarr's own client reads and writes their chunks."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
import obstore.store
import pytest
import s3fs
import zarr
from zarr.core.sync import sync
from zarr.storage import FsspecStore, ObjectStore

import aiozarr
from aiozarr.integrations.zarr import Store, enable
from aiozarr.stores.zarr_python_mapping import native_store
from tests.support.servers.moto import LocalS3

VALUES = np.arange(40 * 30, dtype=np.float32).reshape(40, 30)


def fsspec_store(server: LocalS3, bucket: str) -> Any:
    options = server.storage_options
    fs = s3fs.S3FileSystem(
        asynchronous=True,
        skip_instance_cache=True,
        endpoint_url=options["endpoint_url"],
        key=options["key"],
        secret=options["secret"],
        client_kwargs={"region_name": options["region"]},
    )
    return FsspecStore(fs, path=f"{bucket}/a.zarr")


def obstore_store(server: LocalS3, bucket: str) -> Any:
    options = server.storage_options
    inner = obstore.store.S3Store(
        bucket,
        prefix="a.zarr",
        endpoint=options["endpoint_url"],
        access_key_id=options["key"],
        secret_access_key=options["secret"],
        region=options["region"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    return ObjectStore(inner)


def own_store(server: LocalS3, bucket: str) -> Any:
    return Store(aiozarr.stores.from_url(f"s3://{bucket}/a.zarr", **server.storage_options))


@pytest.mark.parametrize("kind", [fsspec_store, obstore_store, own_store])
@pytest.mark.parametrize("described", [{}, {"shards": (20, 20)}])
@pytest.mark.filterwarnings("ignore")
def test_arrays_in_s3_are_read_and_written_by_the_own_client(
    kind: Any, described: dict[str, Any], s3_server: LocalS3
) -> None:
    bucket = f"zarr-{uuid4().hex[:8]}"
    s3_server.create_bucket(bucket)
    store = kind(s3_server, bucket)
    plain = zarr.create_array(store, shape=VALUES.shape, chunks=(10, 10), dtype="f4", fill_value=0, **described)
    with enable(), aiozarr.record() as report:
        array = zarr.open_array(store)
        array[...] = VALUES
        array[3, 4:9] = -1
        found = array[...]
    expected = VALUES.copy()
    expected[3, 4:9] = -1
    assert np.array_equal(found, expected)
    assert np.array_equal(plain[...], expected)
    objects = 4 if described else 12
    # Whole objects, a read and a write of one that is changed in part, and everything once more.
    assert report.chunks == objects + 1 + 12
    # Through s3fs or obstore they would be requests to another kind of store.
    assert isinstance(native_store(store), aiozarr.stores.ObjectStore)
    assert set(report.origins) == {f"s3://{bucket}"}
    if kind is fsspec_store:
        sync(store.fs._s3.close())
