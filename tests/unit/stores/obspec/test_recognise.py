"""Stores of obstore are served by aiozarr's own clients where that is exact, and asked otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, MemoryStore, S3Store

from aiozarr.stores.obspec_store import from_obspec

KEYS: dict[str, Any] = {"access_key_id": "id", "secret_access_key": "secret", "region": "us-east-1"}


def credentials() -> Any:
    """Stand for a provider, which nothing calls."""


@pytest.mark.parametrize(
    ("store", "kind", "url"),
    [
        (S3Store("bucket", prefix="a/b", **KEYS), "ObjectStore", "s3://bucket/a/b"),
        (S3Store("bucket", region="us-west-2", skip_signature=True), "ObjectStore", "s3://bucket"),
        (GCSStore("bucket", skip_signature=True), "ObjectStore", "gs://bucket"),
        (AzureStore("container", account_name="a", account_key="Zm9v"), "ObjectStore", "az://container"),
        (HTTPStore.from_url("https://example.com/a"), "HTTPStore", "https://example.com/a"),
        # Both would search for credentials, and may find others.
        (S3Store("bucket", region="us-west-2"), "ObspecStore", "s3://bucket"),
        (S3Store("bucket", region="x", credential_provider=credentials), "ObspecStore", "s3://bucket"),
        (HTTPStore.from_url("https://example.com/a", client_options={"timeout": "5s"}), "ObspecStore", None),
        (MemoryStore(), "ObspecStore", None),
    ],
)
def test_what_serves_a_store_of_obstore(store: Any, kind: str, url: str | None) -> None:
    found = from_obspec(store)
    assert type(found).__name__ == kind
    assert url is None or found.url.rstrip("/") == url
    assert "secret" not in repr(found)
    assert type(from_obspec(store, native=False)).__name__ == "ObspecStore"


def test_a_local_store_is_the_folder(tmp_path: Path) -> None:
    assert from_obspec(LocalStore(tmp_path)).url == tmp_path.as_uri()
    assert from_obspec(LocalStore(tmp_path), native=False).url == tmp_path.as_uri()


def test_an_object_without_methods_is_refused_and_a_store_is_itself() -> None:
    with pytest.raises(TypeError, match="get_async, got dict"):
        from_obspec({})
    store = from_obspec(MemoryStore())
    assert from_obspec(store) is store


def test_keys_of_the_environment_are_those_of_both_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    found = from_obspec(S3Store("bucket", region="us-east-1"))
    assert type(found).__name__ == "ObspecStore"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert type(from_obspec(S3Store("bucket", region="us-east-1"))).__name__ == "ObjectStore"


def test_a_web_server_without_tls_is_asked_by_the_own_client() -> None:
    store = HTTPStore.from_url("http://127.0.0.1:1/a", client_options={"allow_http": True})
    assert type(from_obspec(store)).__name__ == "HTTPStore"
