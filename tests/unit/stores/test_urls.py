"""Stores of URLs and paths: schemes, local paths, and refused URLs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiozarr.errors import AiozarrError, InvalidKeyError, UnknownSchemeError
from aiozarr.stores import LocalStore, MemoryStore, ZipStore, from_url


def test_a_path_is_a_local_store(tmp_path: Path) -> None:
    expected = LocalStore(tmp_path / "a b")
    assert from_url(tmp_path / "a b") == expected
    assert from_url(str(tmp_path / "a b")) == expected
    assert from_url(expected.url) == expected
    assert from_url(f"file://localhost{tmp_path}/a%20b") == expected


@pytest.mark.parametrize("name", ["a?b#c", "100%", "ü", "a:b", "x;y", "%20"])
def test_the_url_of_a_local_store_leads_back_to_it(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path / name)
    assert from_url(store.url) == store
    assert from_url(str(tmp_path / name)) == store


def test_a_leading_tilde_of_a_str_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert from_url("~/data.zarr") == LocalStore(tmp_path / "data.zarr")
    assert from_url(Path("~/data.zarr")) == LocalStore(tmp_path / "~" / "data.zarr")


def test_durable_is_an_option_of_local_stores(tmp_path: Path) -> None:
    store = from_url(tmp_path, fsync=True)
    assert isinstance(store, LocalStore)
    assert store.fsync


def test_memory_urls_name_a_store_and_a_prefix() -> None:
    assert from_url("memory://name") == MemoryStore.named("name")
    assert from_url("MEMORY://name/") == MemoryStore.named("name")
    assert from_url("memory://name/a/b%20c") == MemoryStore.named("name", "a/b c/")
    with pytest.raises(ValueError, match="name"):
        from_url("memory://")
    with pytest.raises(InvalidKeyError):
        from_url("memory://name/../other")


@pytest.mark.parametrize(
    ("path", "meant"), [("s3:/bucket/a", "s3://bucket/a"), ("file:/data/a.zarr", "file:///data/a.zarr")]
)
def test_a_url_without_its_second_slash_is_refused_with_the_one_that_is_meant(path: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {meant}"):
        from_url(path)


@pytest.mark.parametrize("url", ["nonsense://x", "nonsense::s3://b/x"])
def test_an_unknown_scheme_names_those_that_are_known(url: str) -> None:
    with pytest.raises(
        UnknownSchemeError, match=r"memory://, file://, http://, https://, s3://.*pip install fsspec"
    ) as e:
        from_url(url)
    assert isinstance(e.value, AiozarrError)
    assert isinstance(e.value, ValueError)


def test_a_path_that_ends_in_zip_is_an_archive_unless_it_is_a_directory(tmp_path: Path) -> None:
    expected = ZipStore(tmp_path / "a.zip")
    for place in (
        tmp_path / "a.zip",
        f"{tmp_path}/a.zip/",
        f"file://{tmp_path}/a.zip",
        f"zip::file://{tmp_path}/a.zip",
    ):
        assert from_url(place) == expected
    assert from_url(f"zip://::file://{tmp_path}/a.zip") == expected
    assert from_url(expected.url) == expected
    (tmp_path / "a.zip").mkdir()
    assert from_url(tmp_path / "a.zip") == LocalStore(tmp_path / "a.zip")
    assert from_url(tmp_path / "a.zip" / "b") == LocalStore(tmp_path / "a.zip" / "b")
    assert from_url(tmp_path / "a.zip" / "b.zip" / "c") == LocalStore(tmp_path / "a.zip" / "b.zip" / "c")


def test_a_place_inside_an_archive_is_the_archive_seen_from_there(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    expected = ZipStore(tmp_path / "a.zip", prefix="in side/b/")
    for place in (
        tmp_path / "a.zip" / "in side" / "b",
        f"zip://in side/b::file://{tmp_path}/a.zip",
        f"zip::file://{tmp_path}/a.zip/in%20side/b",
        expected.url,
    ):
        assert from_url(place) == expected
    with pytest.raises(InvalidKeyError):
        from_url(f"zip://../b::file://{tmp_path}/a.zip")


@pytest.mark.parametrize("name", ["odd.kmz", "one.zip/two.zip", "ü %.zip"])
def test_the_url_of_an_archive_leads_back_to_it(tmp_path: Path, name: str) -> None:
    for prefix in ("", "a b/c/"):
        store = ZipStore(tmp_path / name, prefix=prefix)
        assert from_url(store.url) == store


def test_an_archive_at_a_url_is_one_object_of_the_store() -> None:
    store = from_url("http://host/some/where/x%20y.zip?token=1", max_member_bytes=5)
    assert store == ZipStore(from_url("http://host/some/where/?token=1"), key="x y.zip")
    assert store.url == "zip::http://host/some/where/x%20y.zip"
    assert from_url("https://host/x.zip/content").url == "https://host/x.zip/content"
    inside = from_url("zip::https://host/x.zip/a/b")
    assert inside == ZipStore(from_url("https://host"), key="x.zip", prefix="a/b/")
    memory = from_url("zip::memory://name/x.zip")
    assert memory == ZipStore(from_url("memory://name"), key="x.zip")
    assert from_url(memory.url) == memory
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1", "region": "us-east-1"}
    for url in ("s3://b/x.zip", "zip::s3://b/x.zip", "zip://::s3://b/x.zip"):
        assert from_url(url, **options) == ZipStore(from_url("s3://b", **options), key="x.zip")


S3 = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1", "region": "us-east-1"}


@pytest.mark.parametrize(
    ("url", "plain", "keyed"),
    [
        ("s3://b/x", S3, {"s3": S3}),
        (
            "s3://b/x",
            S3,
            {"s3": {"key": "k", "secret": "s"}, "endpoint_url": S3["endpoint_url"], "region": "us-east-1"},
        ),
        ("zip::s3://b/x.zip", S3, {"s3": S3}),
        ("zip::s3://b/x.zip/a/b", {**S3, "duplicates": "last"}, {"s3": S3, "zip": {"duplicates": "last"}}),
        ("zip://a::s3://b/x.zip", S3, {"s3": S3, "zip": None}),
        ("s3://b/x.zip", S3, {"s3": S3, "zip": {}}),
        ("https://h/x", {"token": "t"}, {"https": {"token": "t"}}),
        ("https://h/x", {"token": "t"}, {"http": {"token": "t"}}),
        (
            "zip::https://h/x.zip",
            {"token": "t"},
            {"https": {"client_kwargs": {"headers": {"Authorization": "Bearer t"}}}},
        ),
        ("memory://name", {}, {"memory": {}}),
        ("/tmp/x", {"fsync": True}, {"file": {"fsync": True}}),
        ("/tmp/x.zip", {"max_member_bytes": 5}, {"zip": {"max_member_bytes": 5}}),
        ("zip::file:///tmp/x.zip", {"fsync": True}, {"zip": {"fsync": True}, "file": {}}),
    ],
)
def test_options_under_the_name_of_a_protocol_are_those_of_its_link(
    url: str, plain: dict[str, Any], keyed: dict[str, Any]
) -> None:
    kept = {name: dict(value) if isinstance(value, dict) else value for name, value in keyed.items()}
    store = from_url(url, **keyed)
    assert store == from_url(url, **plain)
    assert store.origin == from_url(url, **plain).origin
    assert keyed == kept


@pytest.mark.parametrize(
    ("url", "options", "kind"),
    [
        ("zip::s3://b/x.zip", {"s3": S3, "key": "other"}, ValueError),
        ("zip::s3://b/x.zip", {"s3": S3, "zip": {"duplicates": "last"}, "duplicates": "refuse"}, ValueError),
        ("zip::s3://b/x.zip", {"gs": S3}, TypeError),
        ("zip::s3://b/x.zip", {"s3": "x"}, TypeError),
        ("zip::s3://b/x.zip", {"s3": S3, "zip": {"anon": True}}, TypeError),
        ("/tmp/x.zip", {"zip": {"durabel": True}}, TypeError),
        ("https://h/x", {"s3": S3}, TypeError),
        ("/tmp/x", {"s3": S3}, TypeError),
    ],
)
def test_options_of_another_protocol_and_contradictions_are_refused(
    url: str, options: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="option"):
        from_url(url, **options)


@pytest.mark.parametrize("url", ["zip::", "zip://a", "zip://a::", "zip::http://x.zip", "zip::memory://name"])
def test_an_archive_that_no_store_holds_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"archive .*, as in zip::s3://bucket/data\.zip"):
        from_url(url)


@pytest.mark.parametrize("url", ["file://host/data", "file://data", "file://"])
def test_a_file_url_that_names_no_absolute_path_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        from_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "memory://\ud800",
        "/tmp/\ud800",
        "~\ud800",
        "/tmp/\ud800.zip",
        "file:///tmp/\ud800",
        "http://h/\ud800",
        "ftp://h/\ud800",
    ],
)
def test_a_lone_surrogate_is_refused(url: str) -> None:
    with pytest.raises(InvalidKeyError, match="lone surrogate"):
        from_url(url)
    with pytest.raises(InvalidKeyError, match="lone surrogate"):
        MemoryStore.named(url)


def test_a_file_name_that_is_no_utf8_has_the_surrogates_of_python(tmp_path: Path) -> None:
    store = from_url(f"{tmp_path}/\udcff")
    assert from_url(store.url).identity == store.identity


@pytest.mark.parametrize("url", ["memory://name", "/tmp/x", "file:///tmp/x"])
def test_an_unknown_option_is_named(url: str) -> None:
    with pytest.raises(TypeError, match="region"):
        from_url(url, region="x")


@pytest.mark.parametrize("url", ["a.zarr", "memory://a", "s3://bucket/a"])
def test_storage_options_as_in_open_are_answered_with_the_keywords(url: str) -> None:
    with pytest.raises(TypeError, match=r"from_url\(url, \*\*storage_options\)"):
        from_url(url, storage_options={"anon": True})
