"""Where a bucket is reached and as whom, decided from options and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.stores.gcs.address import (
    GcsOptions,
    Source,
    find_endpoint,
    find_source,
    parse_url,
    sends_credentials_openly,
)


@pytest.mark.parametrize(
    ("url", "bucket", "root"),
    [
        ("gs://b", "b", ""),
        ("gs://b/", "b", ""),
        ("gcs://my.bucket_1/a b/c%20", "my.bucket_1", "a b/c%20/"),
        ("gs://b/a/", "b", "a/"),
        ("GS://b", "b", ""),
    ],
)
def test_a_url_is_a_bucket_and_a_root(url: str, bucket: str, root: str) -> None:
    assert parse_url(url) == (bucket, root)


@pytest.mark.parametrize(
    "url", ["s3://b", "gs:/b", "gs://", "gs:///a", "gs://b?x", "gs://ü/a", "gs://..", "gs://./a", "gs://u:hidden@b/a"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="bucket") as caught:
        parse_url(url)
    assert "hidden" not in str(caught.value)


def test_a_root_that_is_no_key_is_refused() -> None:
    with pytest.raises(InvalidKeyError):
        parse_url("gs://b/a//c")


@pytest.mark.parametrize(
    ("given", "environ", "origin", "google"),
    [
        (None, {}, "https://storage.googleapis.com", True),
        (None, {"STORAGE_EMULATOR_HOST": ""}, "https://storage.googleapis.com", True),
        (None, {"STORAGE_EMULATOR_HOST": "default"}, "https://storage.googleapis.com", True),
        (None, {"STORAGE_EMULATOR_HOST": "localhost:4443"}, "http://localhost:4443", False),
        (None, {"STORAGE_EMULATOR_HOST": "https://fake:4443"}, "https://fake:4443", False),
        ("http://given:1", {"STORAGE_EMULATOR_HOST": "localhost:4443"}, "http://given:1", False),
        ("https://restricted.googleapis.com", {}, "https://restricted.googleapis.com", True),
        ("https://evilgoogleapis.com", {}, "https://evilgoogleapis.com", False),
        (None, {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "Universe.test"}, "https://storage.universe.test", True),
        ("http://given:1", {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "universe.test"}, "http://given:1", False),
        (
            "https://eu.universe.test",
            {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "universe.test"},
            "https://eu.universe.test",
            True,
        ),
    ],
)
def test_the_server_is_the_one_given_or_the_emulator_or_google(
    given: str | None, environ: dict[str, str], origin: str, google: bool
) -> None:
    place = find_endpoint("b", GcsOptions(endpoint_url=given), environ)
    assert (place.web.origin, bool(place.universe)) == (origin, google)


@pytest.mark.parametrize("url", ["http://u:p@h", "http://h?x=1", "ftp://h", "h"])
def test_endpoints_that_are_none_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|credentials"):
        find_endpoint("b", GcsOptions(endpoint_url=url), {})


def test_keys_are_percent_encoded_in_paths_and_queries() -> None:
    place = find_endpoint("b", GcsOptions(endpoint_url="http://h/base"), {})
    assert place.object_path("a/ü %2F?") == "/base/b/a/%C3%BC%20%252F%3F"
    assert place.list_path == "/base/storage/v1/b/b/o"
    target = place.upload_target("multipart", "a/b&c", ifGenerationMatch="0")
    assert (
        target == "/base/upload/storage/v1/b/b/o?uploadType=multipart&name=a%2Fb%26c&fields=generation,size,crc32c"
        "&ifGenerationMatch=0"
    )


class Credentials: ...


@pytest.mark.parametrize(
    ("given", "environ", "google", "source"),
    [
        ({}, {}, True, "default"),
        ({}, {}, False, "anonymous"),
        ({"anon": False}, {}, False, "anonymous"),
        ({"anon": False}, {}, True, "default"),
        ({"anon": True}, {}, True, "anonymous"),
        ({}, {"GOOGLE_SKIP_SIGNATURE": "true"}, True, "anonymous"),
        ({"token": "t"}, {"GOOGLE_SKIP_SIGNATURE": "true"}, True, "token"),
        ({"token": "google_default"}, {}, False, "default"),
        ({"token": "cloud"}, {}, False, "metadata"),
        ({"token": "ya29.abc"}, {}, False, "token"),
        ({"token": {"type": "x"}}, {}, True, "document"),
        ({"token": Credentials()}, {}, True, "credentials"),
    ],
)
def test_an_emulator_is_asked_without_credentials_unless_some_are_given(
    given: dict[str, Any], environ: dict[str, str], google: bool, source: Source
) -> None:
    assert find_source(GcsOptions(**given), environ, google=google) == source


def test_a_token_that_is_the_path_of_a_file_is_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("{}")
    assert find_source(GcsOptions(token=str(path)), {}, google=True) == "file"


@pytest.mark.parametrize("token", ["hidden\r\nX: y", "hidden€"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="header") as caught:
        find_source(GcsOptions(token=token), {}, google=True)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("token", ["/not/there", "there.json", "~/not/there"])
def test_a_file_that_is_not_there_is_not_taken_for_a_token(token: str) -> None:
    with pytest.raises(ValueError, match="the storage option 'token' names a credentials file that does not") as caught:
        find_source(GcsOptions(token=token), {}, google=True)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "source", "openly"),
    [
        ("http://far", "token", True),
        ("http://far", "default", True),
        ("http://far", "anonymous", False),
        ("https://far", "token", False),
        ("http://localhost:1", "token", False),
        ("http://127.0.0.2:1", "token", False),
        ("http://[::1]:1", "token", False),
    ],
)
def test_tokens_that_go_out_without_tls_are_noticed(endpoint: str, source: Source, openly: bool) -> None:
    assert sends_credentials_openly(find_endpoint("b", GcsOptions(endpoint_url=endpoint), {}), source) == openly


def test_credentials_in_a_url_are_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match="the URL of a bucket must not contain credentials; use the option") as caught:
        parse_url("gs://user:hidden@b/x")
    assert "hidden" not in str(caught.value)
