"""What GCS says in the documents of both its APIs becomes typed errors that say the same."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from aiozarr.errors import StoreError
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.gcs.upload import gcs_error
from tests.support.servers.gcs_server import GcsServer

WORDS = "The specified bucket does not exist."
JSON = json.dumps({"error": {"code": 404, "message": WORDS, "errors": [{"reason": "notFound"}]}}).encode()
XML = f"<Error><Code>NoSuchBucket</Code><Message>{WORDS}</Message></Error>".encode()


@pytest.mark.parametrize("body", [JSON, XML], ids=["JSON", "XML"])
def test_a_bucket_that_is_missing_is_told_alike_by_both_apis(body: bytes) -> None:
    error = gcs_error(404, {}, body)
    assert error.message.startswith("the bucket does not exist: ")
    assert WORDS in str(error)


def test_another_thing_that_is_missing_is_no_bucket() -> None:
    body = JSON.replace(WORDS.encode(), b"No such upload")
    assert gcs_error(404, {}, body).message.startswith("not found: notFound")


@pytest.mark.parametrize("operation", ["get", "stat", "set", "erase", "list", "list_dir", "erase_values"])
async def test_every_operation_on_a_missing_bucket_says_so(operation: str) -> None:
    with GcsServer("other") as server:
        async with ObjectStore("gs://bkt/root", endpoint_url=server.url) as store:
            calls: dict[str, Callable[[], Any]] = {
                "get": lambda: store.get("k"),
                "stat": lambda: store.stat("k"),
                "set": lambda: store.set("k", b"1"),
                "erase": lambda: store.erase("k"),
                "list": store.list,
                "list_dir": lambda: store.list_dir(""),
                "erase_values": lambda: store.erase_values(["k"]),
            }
            with pytest.raises(StoreError, match="the bucket does not exist"):
                await calls[operation]()
