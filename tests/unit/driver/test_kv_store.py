"""Key-value stores of specs name the stores, paths and options that aiozarr opens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from aiozarr.driver.context_resources import RESOURCES, Context
from aiozarr.driver.kv_store import REFUSED, KvStore, split_pipeline
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


PAGE = Path(__file__).parents[3] / "docs" / "integrations" / "tensorstore.md"
ROWS = [
    (member, store, treatment)
    for members, stores, treatment in re.findall(
        r"^\| (`.+?) \| (`.+?) \| (honoured|used|accepted|refused) \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
    for member in re.findall(r"`(\w+)`", members)
    for store in re.findall(r"`(\w+)`", stores)
]
"""The table of the page: member, store and what aiozarr does with it."""
REQUIRED: dict[str, dict[str, Any]] = {
    "http": {"base_url": "http://x/"},
    "s3": {"bucket": "b"},
    "gcs": {"bucket": "b"},
    "zip": {"base": "file:///x.zip"},
}
LIMIT, RETRIES = {"limit": 3}, {"max_retries": 4}
# By member: a value, and the settings and storage options that it comes to.
EFFECTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "requester_pays": (True, {"requester_pays": True}),
    "endpoint": ("http://127.0.0.1:1", {"endpoint_url": "http://127.0.0.1:1"}),
    "aws_region": ("eu-west-1", {"region": "eu-west-1"}),
    "headers": (["A: 1"], {"headers": {"A": "1"}}),
    "aws_credentials": ({"profile": "p"}, {"profile": "p"}),
    "gcs_user_project": ({"project_id": "mine"}, {"requester_pays": "mine"}),
    "file_io_sync": (True, {"fsync": True}),
    **{f"{each}_concurrency": (LIMIT, {"max_requests": 3}) for each in ("file_io", "http_request", "s3_request")},
    "gcs_request_concurrency": (LIMIT, {"max_requests": 3}),
    **{f"{each}_request_retries": (RETRIES, {"retries": 3}) for each in ("http", "s3", "gcs")},
    "data_copy_concurrency": (LIMIT, {"decode_threads": 3}),
    "experimental_s3_rate_limiter": ({"read_rate": 5}, {}),
    "experimental_gcs_rate_limiter": ({"read_rate": 5}, {}),
}


@pytest.mark.parametrize("driver", ["file", "memory", "http", "s3", "gcs", "zip"])
def test_the_page_lists_every_member_of_each_store(driver: str) -> None:
    with pytest.raises(InvalidSpecError, match="expected one of") as caught:
        KvStore.parse({"driver": driver, **REQUIRED.get(driver, {}), "%": 1}, "kvstore")
    known = caught.value.message.partition("expected one of ")[2].split(", ")
    listed = sorted(member for member, store, _ in ROWS if store == driver)
    assert sorted(known) == listed, f"give each member of {driver} a row in {PAGE.name}"


def test_the_page_has_the_treatment_of_each_resource() -> None:
    for member, store, treatment in ROWS:
        known = "refused" if member in REFUSED.get(store, {}) else RESOURCES.get(member, ["honoured"])[0]
        assert treatment == known, f"correct the treatment of {member} in {PAGE.name}"
    assert set(RESOURCES) <= {member for member, _, _ in ROWS}


@pytest.mark.parametrize(("member", "driver", "treatment"), ROWS)
def test_each_member_has_the_effect_that_the_page_says(member: str, driver: str, treatment: str) -> None:
    spec = {"driver": driver, **REQUIRED.get(driver, {})}
    if treatment == "refused":
        with pytest.raises(InvalidSpecError, match="does not support") as caught:
            KvStore.parse({**spec, member: {"mode": "none"} if member in RESOURCES else True}, "kvstore")
        assert caught.value.member == f"kvstore.{member}"
    elif member in EFFECTS:
        value, effect = EFFECTS[member]
        found = KvStore.parse({**spec, member: value}, "kvstore")
        assert {**found.options, **found.settings} == effect
        if member in RESOURCES:
            context = Context({member: value})
            for each in (spec, {**spec, member: member}, {**spec, "context": {member: value}}):
                found = KvStore.parse(each, "kvstore", context)
                assert {**found.options, **found.settings} == effect


def test_defaults_of_a_refused_resource_are_valid_as_tensorstore_writes_them() -> None:
    context = Context({"memory_key_value_store": {}, "data_copy_concurrency": {}, "cache_pool": {}})
    assert KvStore.parse("memory://a/", "kvstore", context).settings == {}
    for kind in ("memory_key_value_store", "file_io_locking"):
        with pytest.raises(InvalidSpecError) as caught:
            Context({f"{kind}#a": {"mode": "none"}})
        assert caught.value.member == f"context.{kind}#a"


@pytest.mark.parametrize(
    ("resources", "member"),
    [
        ({"cache_pool": {"total_bytes_limit": 5, "queued_for_writeback_bytes_limit": 5}}, "queued_for_writeback_bytes"),
        ({"http_request_retries#a": {"max_retries": 2, "initial_delay": "1s"}}, "initial_delay"),
        ({"s3_request_retries": {"max_delay": "1s"}}, "max_delay"),
    ],
)
def test_members_that_would_have_no_effect_are_errors_that_say_so(resources: Any, member: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"would have no effect, because .*spec member context.*{member}"):
        Context(resources)


def test_resources_of_the_context_are_those_of_urls_and_of_archives() -> None:
    context = Context({"s3_request_concurrency": {"limit": 2}, "aws_credentials": {"type": "anonymous"}})
    for spec in ("s3://b/x/", {"driver": "zip", "base": "s3://b/x.zip"}):
        found = KvStore.parse(spec, "kvstore", context)
        assert (found.options, found.settings) == ({"anon": True}, {"max_requests": 2})


@pytest.mark.parametrize(
    "credentials",
    [
        {"type": "imds"},
        {"type": "ecs"},
        {"type": "environment"},
        {"type": "profile", "credentials_file": "/x"},
        {"filename": "/x"},
        {"metadata_endpoint": "http://127.0.0.1:1"},
    ],
)
def test_credentials_of_another_source_are_refused(credentials: dict[str, str]) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        KvStore.parse({"driver": "s3", "bucket": "b", "aws_credentials": credentials}, "kvstore")
    assert caught.value.member == f"kvstore.aws_credentials.{list(credentials)[-1]}"


def test_a_profile_without_a_name_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"driver": "s3", "bucket": "b", "aws_credentials": {"type": "profile"}}
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    assert KvStore.parse(spec, "kvstore").options == {"profile": "default"}
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert KvStore.parse(spec, "kvstore").options == {"profile": "mine"}


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
