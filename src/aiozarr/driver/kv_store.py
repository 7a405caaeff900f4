"""Key-value stores of specs: objects and URLs that name a store, a path in it, and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from aiozarr.driver.context_resources import parse_resource
from aiozarr.driver.json_members import JSON, Members, as_json, boolean, invalid, items, one_of, shown, text
from aiozarr.engine.open_store import Target
from aiozarr.stores.memory_store import MemoryStore

FORMATS = {"zarr3": "zarr3", "zarr2": "zarr", "zarr": "zarr", "auto": "auto"}
"""The drivers of URL pipelines, with those of specs."""
SCHEMES = ("file", "memory", "http", "https", "s3", "gs")


@dataclass(frozen=True)
class KvStore:
    """A store and the path of the array in it.

    Attributes:
        base: the URL of the store, without the path.
        path: the path below that, without a slash at its end.
        options: storage options.
        json: the object of the spec without `path`.
    """

    base: str
    path: str
    # Both may contain secrets, such as headers.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    json: Mapping[str, JSON] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, value: JSON, path: str) -> KvStore:
        """Return the store of an object, or of a URL.

        Raises:
            InvalidSpecError: the driver is unknown, or a member is not valid.
        """
        if isinstance(value, str):
            return parse_url(text(value, path), path)
        with Members(value, path) as members:
            driver = members.require("driver", text)
            parse = _DRIVERS.get(driver)
            if parse is None:
                known = ", ".join(sorted(_DRIVERS))
                raise invalid(members.at("driver"), f"unknown store {driver!r}; known are {known}")
            found = parse(members)
            members.take("context", as_json, None)
            rest = {name: each for name, each in value.items() if name != "path"}
            return replace(found, json=rest)

    def joined(self, path: str) -> KvStore:
        """Return the store with a further path."""
        added = path.strip("/")
        if not added:
            return self
        if any(segment in (".", "..") for segment in added.split("/")):
            raise invalid("path", f"a path has no segments '.' and '..': {shown(path)}")
        return replace(self, path=f"{self.path.rstrip('/')}/{added}" if self.path else added)

    @property
    def target(self) -> Target:
        """What opens a store whose root is the array."""
        if self.base == "memory://" and not self.path:
            return MemoryStore()
        if self.base.startswith("zip::"):
            return f"{self.base}!/{quote(self.path)}" if self.path else self.base
        encoded = self.path if self.base.startswith(("s3://", "gs://", "/", ".")) else quote(self.path)
        if not self.base:
            return self.path
        return self.base + encoded if self.base.endswith("/") else f"{self.base}/{encoded}" if encoded else self.base

    def to_json(self) -> dict[str, JSON]:
        """Return the object of the store."""
        return {**self.json, "path": f"{self.path}/"} if self.path else dict(self.json)


def parse_url(url: str, path: str) -> KvStore:
    """Return the store of a URL.

    Raises:
        InvalidSpecError: the scheme is unknown, or the URL has a query or fragment where it must not.
    """
    first, *adapters = url.split("|")
    scheme, separator, rest = first.partition("://")
    if not separator or scheme not in SCHEMES:
        known = ", ".join([f"{each}://" for each in SCHEMES])
        raise invalid(path, f"expected a URL that begins with one of {known}, not {shown(url)}")
    if scheme not in ("http", "https") and ("?" in rest or "#" in rest):
        raise invalid(path, f"a URL of {scheme}:// has no query and no fragment: {shown(url)}")
    found = _of_url(scheme, rest, url, path)
    for adapter in adapters:
        name, _, inner = adapter.partition(":")
        if name != "zip":
            raise invalid(path, f"unknown adapter {name!r} in {shown(url)}; known is zip")
        found = _zipped(found, unquote(inner), path)
    return found


def split_pipeline(url: str) -> tuple[str, str, str] | None:
    """Return the URL of the store, the driver and the further path of a pipeline such as `s3://bucket/a/|zarr3:`.

    Returns: None if the URL is no pipeline.

    Raises:
        InvalidSpecError: the last part is no driver.
    """
    store, bar, last = url.rpartition("|")
    if not bar or "://" not in store:
        return None
    name, _, path = last.partition(":")
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise invalid("", f"the URL {shown(url)} does not end with a driver; known are {known}, as in {store}|zarr3:")
    if "?" in path or "#" in path:
        raise invalid("", f"the driver {name!r} in {shown(url)} has no query and no fragment")
    return store, FORMATS[name], unquote(path)


def _of_url(scheme: str, rest: str, url: str, path: str) -> KvStore:
    if scheme == "file":
        if not rest.startswith("/"):
            raise invalid(path, f"a URL of file:// names no host; a path begins with file:///, not {shown(url)}")
        location = "/" + unquote(rest.lstrip("/"), errors="surrogateescape")
        return KvStore("", location.rstrip("/") or "/", json={"driver": "file"})
    if scheme == "memory":
        return KvStore("memory://", unquote(rest).strip("/"), json={"driver": "memory"})
    if scheme in ("http", "https"):
        host, _, key = rest.partition("/")
        return KvStore(
            f"{scheme}://{host}/", unquote(key).strip("/"), json={"driver": "http", "base_url": f"{scheme}://{host}/"}
        )
    bucket, _, key = rest.partition("/")
    driver = {"s3": "s3", "gs": "gcs"}[scheme]
    return KvStore(f"{scheme}://{bucket}/", unquote(key).strip("/"), json={"driver": driver, "bucket": bucket})


def _zipped(archive: KvStore, path: str, member: str) -> KvStore:
    if not archive.path or (archive.base == "memory://" and "/" not in archive.path):
        raise invalid(member, "an archive is a file in a store, as in memory://name/data.zip or s3://bucket/data.zip")
    base = archive.target
    return KvStore(f"zip::{base}", path.strip("/"), archive.options, json={"driver": "zip", "base": archive.to_json()})


# --- the members of each driver ----------------------------------------------------------------------------------


def _path(members: Members) -> str:
    return members.take("path", text, "")


def _file(members: Members) -> KvStore:
    path = _path(members)
    for name in ("file_io_concurrency", "file_io_sync", "file_io_locking"):
        members.take(name, parse_resource(name), None)
    return KvStore("", path.rstrip("/") or path[:1] or ".")


def _memory(members: Members) -> KvStore:
    members.take("memory_key_value_store", parse_resource("memory_key_value_store"), None)
    members.take("atomic", boolean, True)
    return KvStore("memory://", _path(members).strip("/"))


def _http(members: Members) -> KvStore:
    base = members.require("base_url", text)
    headers = members.take("headers", _headers, None)
    for name in ("http_request_concurrency", "http_request_retries"):
        members.take(name, parse_resource(name), None)
    if urlsplit(base).scheme not in ("http", "https"):
        raise invalid(members.at("base_url"), f"expected a URL of http:// or https://, not {shown(base)}")
    options = {} if not headers else {"headers": headers}
    return KvStore(base if base.endswith("/") else f"{base}/", _path(members).strip("/"), options)


def _headers(value: JSON, path: str) -> dict[str, str]:
    pairs = [(where, *text(each, where).partition(":")) for where, each in items(value, path)]
    for where, name, colon, _ in pairs:
        if not colon:
            raise invalid(where, f"a header is 'Name: value', not {name!r}")
    return {name.strip(): content.strip() for _, name, _, content in pairs}


def _s3(members: Members) -> KvStore:
    bucket = members.require("bucket", text)
    options: dict[str, Any] = {
        "endpoint_url": members.take("endpoint", text, None),
        "region": members.take("aws_region", text, None),
        "requester_pays": members.take("requester_pays", boolean, None),
        **members.take("aws_credentials", _aws_credentials, {}),
    }
    for name in (
        *("host_header", "s3_request_concurrency", "s3_request_retries", "experimental_s3_rate_limiter"),
        *("data_copy_concurrency", "use_conditional_write"),
    ):
        members.take(name, as_json, None)
    given = {name: each for name, each in options.items() if each is not None}
    return KvStore(f"s3://{bucket}/", _path(members).strip("/"), given)


def _aws_credentials(value: JSON, path: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {}
    with Members(value, path) as members:
        kind = members.take("type", one_of("default", "anonymous", "profile", "environment", "imds", "ecs"), "default")
        found: dict[str, Any] = {"profile": members.take("profile", text, None)}
        for name in ("filename", "config_file", "credentials_file", "metadata_endpoint"):
            members.take(name, text, None)
        return {"anon": True} if kind == "anonymous" else found


def _gcs(members: Members) -> KvStore:
    bucket = members.require("bucket", text)
    for name in (
        *("gcs_user_project", "gcs_request_concurrency", "gcs_request_retries", "experimental_gcs_rate_limiter"),
        "data_copy_concurrency",
    ):
        members.take(name, as_json, None)
    return KvStore(f"gs://{bucket}/", _path(members).strip("/"))


def _zip(members: Members) -> KvStore:
    archive = members.require("base", KvStore.parse)
    members.take("cache_pool", as_json, None)
    return _zipped(archive, _path(members), members.at("base"))


_DRIVERS: dict[str, Callable[[Members], KvStore]] = {
    "file": _file,
    "memory": _memory,
    "http": _http,
    "s3": _s3,
    "gcs": _gcs,
    "zip": _zip,
}
