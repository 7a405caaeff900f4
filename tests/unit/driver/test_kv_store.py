"""Key-value stores of specs name the stores, paths and options that aiozarr opens."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.driver.kv_store import KvStore, split_pipeline
from aiozarr.errors import InvalidSpecError
from aiozarr.stores import MemoryStore


@pytest.mark.parametrize(
    ("spec", "target", "options"),
    [
        ({"driver": "file", "path": "/data/a/"}, "/data/a", {}),
        ("file:///data/a%20b/", "/data/a b", {}),
        ({"driver": "file"}, ".", {}),
        ({"driver": "file", "path": "/"}, "/", {}),
        ({"driver": "file", "path": "data/"}, "data", {}),
        ({"driver": "memory", "path": "a/b/"}, "memory://a/b", {}),
        ("memory://a/b", "memory://a/b", {}),
        (
            {
                "driver": "s3",
                "bucket": "b",
                "path": "x/",
                "endpoint": "http://127.0.0.1:9000",
                "aws_region": "eu-west-1",
            },
            "s3://b/x",
            {"endpoint_url": "http://127.0.0.1:9000", "region": "eu-west-1"},
        ),
        ({"driver": "s3", "bucket": "b", "aws_credentials": {"type": "anonymous"}}, "s3://b/", {"anon": True}),
        (
            {"driver": "s3", "bucket": "b", "aws_credentials": {"type": "profile", "profile": "p"}},
            "s3://b/",
            {"profile": "p"},
        ),
        ("s3://b/x/y/", "s3://b/x/y", {}),
        ({"driver": "gcs", "bucket": "b", "path": "x"}, "gs://b/x", {}),
        ("gs://b/x", "gs://b/x", {}),
        (
            {"driver": "http", "base_url": "https://example.org", "path": "/a b", "headers": ["X-Key: 1"]},
            "https://example.org/a%20b",
            {"headers": {"X-Key": "1"}},
        ),
        ({"driver": "zip", "base": {"driver": "file", "path": "/x.zip"}, "path": "a/"}, "zip::/x.zip!/a", {}),
        ("file:///x.zip|zip:a/", "zip::/x.zip!/a", {}),
    ],
)
def test_a_store_is_opened_by_its_target_and_options(spec: Any, target: str, options: dict[str, Any]) -> None:
    found = KvStore.parse(spec, "kvstore")
    assert found.target == target
    assert {name: each for name, each in found.options.items() if each is not None} == options
    again = KvStore.parse(found.to_json(), "kvstore")
    assert again.target == target


def test_a_memory_store_without_a_path_is_new() -> None:
    assert isinstance(KvStore.parse({"driver": "memory"}, "kvstore").target, MemoryStore)


@pytest.mark.parametrize(
    ("spec", "member"),
    [
        ({"driver": "ocdbt"}, "kvstore.driver"),
        ({"path": "/x"}, "kvstore.driver"),
        ({"driver": "s3"}, "kvstore.bucket"),
        ({"driver": "s3", "bucket": "b", "buckets": 1}, "kvstore.buckets"),
        ({"driver": "s3", "bucket": "b", "aws_credentials": {"type": "magic"}}, "kvstore.aws_credentials.type"),
        ({"driver": "http", "base_url": "http://x", "headers": ["X"]}, "kvstore.headers[0]"),
        ({"driver": "http", "base_url": "x"}, "kvstore.base_url"),
        ({"driver": "file", "file_io_sync": "x"}, "kvstore.file_io_sync"),
        ({"driver": "zip", "base": "memory://x.zip"}, "kvstore.base"),
        ("memory://x|zip:", "kvstore"),
        ("file://host/x", "kvstore"),
        ("ftp://x", "kvstore"),
        ("memory://a?b", "kvstore"),
        ("file:///x|ocdbt:", "kvstore"),
        (1, "kvstore"),
    ],
)
def test_what_is_no_store_is_refused_by_its_member(spec: Any, member: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        KvStore.parse(spec, "kvstore")
    assert caught.value.member == member


def test_a_pipeline_ends_with_a_driver() -> None:
    assert split_pipeline("s3://b/x/|zarr3:y/") == ("s3://b/x/", "zarr3", "y/")
    assert split_pipeline("file:///x.zip|zip:a/|zarr2:") == ("file:///x.zip|zip:a/", "zarr", "")
    assert split_pipeline("s3://b/x/") is None
    assert split_pipeline("a|b") is None
    with pytest.raises(InvalidSpecError, match="zarr3"):
        split_pipeline("s3://b/x/|n5:")
