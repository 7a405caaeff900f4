"""Key-value stores of specs: objects and URLs that name a store, a path in it, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from aiozarr.common.formatting import shown
from aiozarr.driver.context_resources import Context, refuse
from aiozarr.driver.json_members import JSON, Members, as_json, boolean, invalid, items, text
from aiozarr.engine import Target
from aiozarr.settings import Settings
from aiozarr.stores.memory_store import MemoryStore

FORMATS = {"zarr3": "zarr3", "zarr2": "zarr", "zarr": "zarr", "auto": "auto"}
"""The drivers of URL pipelines, with the drivers of specs."""
SCHEMES = ("file", "memory", "http", "https", "s3", "gs")


@dataclass(frozen=True)
class KvStore:
    """A store and the path of the array in it.

    Attributes:
        base: the URL of the store, without the path.
        path: the path below that, without a slash at its end.
        options: storage options.
        settings: settings of the array.
        json: the object of the spec without `path`.
    """

    base: str
    path: str
    # Both may contain secrets, such as headers.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    json: Mapping[str, JSON] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, value: JSON, path: str, context: Context | None = None) -> KvStore:
        """Parse a store from an object or a URL. `context` has the resources that it does not name itself.

        Raises:
            InvalidSpecError: the driver is unknown, or a member is not valid or not supported.
        """
        context = context or Context()
        if isinstance(value, str):
            return parse_url(text(value, path), path, context)
        with Members(value, path) as members:
            driver = members.require("driver", text)
            if driver not in _RESOURCES:
                known = ", ".join(sorted(_RESOURCES))
                raise invalid(members.at("driver"), f"unknown store {driver!r}; expected one of {known}")
            context = context.extended(members.take("context", Context.parse, Context()))
            found = _with_resources(_opened(driver, members, context), driver, members, context)
            rest = {name: each for name, each in value.items() if name != "path"}
            return replace(found, json=rest)

    def joined(self, path: str) -> KvStore:
        """Return the store with a further path."""
        added = path.strip("/")
        if not added:
            return self
        if any(segment in (".", "..") for segment in added.split("/")):
            raise invalid("path", f"a path must not contain the segments '.' or '..': {shown(path)}")
        return replace(self, path=f"{self.path.rstrip('/')}/{added}" if self.path else added)

    @property
    def target(self) -> Target:
        """The target that opens a store whose root is the array."""
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


def parse_url(url: str, path: str, context: Context) -> KvStore:
    """Return the store of a URL, with the resources of `context`.

    Raises:
        InvalidSpecError: the scheme is unknown, or the URL has a query or fragment where it must not.
    """
    first, *adapters = url.split("|")
    scheme, separator, rest = first.partition("://")
    if not separator or scheme not in SCHEMES:
        known = ", ".join([f"{each}://" for each in SCHEMES])
        raise invalid(path, f"expected a URL that begins with one of {known}, not {shown(url)}")
    if scheme not in ("http", "https") and ("?" in rest or "#" in rest):
        raise invalid(path, f"{scheme}:// URLs must not have a query or a fragment: {shown(url)}")
    found = _of_url(scheme, rest, url, path, context)
    for adapter in adapters:
        name, _, inner = adapter.partition(":")
        if name != "zip":
            raise invalid(path, f"unknown adapter {name!r} in {shown(url)}; expected zip")
        found = _zipped(found, unquote(inner), path)
    return found


def split_pipeline(url: str) -> tuple[str, str, str] | None:
    """Return the URL of the store, the driver and the further path of a pipeline such as `s3://bucket/a/|zarr3:`.

    Returns: None if the URL is not a pipeline.

    Raises:
        InvalidSpecError: the last part is not a driver.
    """
    store, bar, last = url.rpartition("|")
    if not bar or "://" not in store:
        return None
    name, _, path = last.partition(":")
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise invalid("", f"the URL {shown(url)} must end with a driver ({known}), as in {store}|zarr3:")
    if "?" in path or "#" in path:
        raise invalid("", f"the driver {name!r} must not have a query or a fragment: {shown(url)}")
    return store, FORMATS[name], unquote(path)


def _of_url(scheme: str, rest: str, url: str, path: str, context: Context) -> KvStore:
    if scheme == "file":
        if not rest.startswith("/"):
            raise invalid(path, f"file:// URLs must not have a host; begin a path with file:///, not {shown(url)}")
        location = "/" + unquote(rest.lstrip("/"), errors="surrogateescape")
        store = KvStore("", location.rstrip("/") or "/", json={"driver": "file"})
        return _with_resources(store, "file", Members({}, path), context)
    host, _, key = rest.partition("/")
    if scheme == "memory":
        json = {"driver": "memory", "path": unquote(rest)}
    elif scheme in ("s3", "gs"):
        json = {"driver": "s3" if scheme == "s3" else "gcs", "bucket": host, "path": unquote(key)}
    else:
        json = {"driver": "http", "base_url": f"{scheme}://{host}/", "path": unquote(key)}
    return KvStore.parse(json, path, context)


def _zipped(archive: KvStore, path: str, member: str) -> KvStore:
    if not archive.path or (archive.base == "memory://" and "/" not in archive.path):
        raise invalid(member, "an archive must be in a store, as in memory://name/data.zip or s3://bucket/data.zip")
    base = archive.target
    json = {"driver": "zip", "base": archive.to_json()}
    return replace(archive, base=f"zip::{base}", path=path.strip("/"), json=json)


# --- the members of each driver ----------------------------------------------------------------------------------

_RESOURCES = {
    "file": ("file_io_concurrency", "file_io_sync", "file_io_locking"),
    "memory": ("memory_key_value_store",),
    "http": ("http_request_concurrency", "http_request_retries"),
    "s3": (
        *("aws_credentials", "s3_request_concurrency", "s3_request_retries", "experimental_s3_rate_limiter"),
        "data_copy_concurrency",
    ),
    "gcs": (
        *("gcs_user_project", "gcs_request_concurrency", "gcs_request_retries", "experimental_gcs_rate_limiter"),
        "data_copy_concurrency",
    ),
    "zip": (),
}
"""The resources of a context that each driver uses."""

REFUSED = {
    "memory": {"atomic": "transactions are not supported"},
    "s3": {
        "host_header": "the host of 'endpoint' is always sent",
        "use_conditional_write": "writes are always conditional where necessary",
    },
    "zip": {"cache_pool": "it would have no effect, because archives are not cached; set the spec's cache_pool"},
}
"""Further members that aiozarr refuses, each with the reason."""


def _with_resources(store: KvStore, driver: str, members: Members, context: Context) -> KvStore:
    """Return the store with the settings and options of its resources, which `members` or the context define."""
    for name, reason in REFUSED.get(driver, {}).items():
        members.take(name, refuse(reason), None)
    found: dict[str, Any] = {}
    for kind in _RESOURCES[driver]:
        found |= context.resource(kind, members.take(kind, as_json, None), members.at(kind))
    settings = {name: value for name, value in found.items() if name in _SETTINGS}
    options = {name: value for name, value in found.items() if name not in _SETTINGS}
    return replace(store, options={**store.options, **options}, settings={**store.settings, **settings})


_SETTINGS = frozenset(each.name for each in fields(Settings))


def _opened(driver: str, members: Members, context: Context) -> KvStore:
    """Return the store of a driver from the members that only this driver has."""
    path = members.take("path", text, "")
    below = path.strip("/")
    match driver:
        case "file":
            return KvStore("", path.rstrip("/") or path[:1] or ".")
        case "memory":
            return KvStore("memory://", below)
        case "gcs":
            return KvStore(f"gs://{members.require('bucket', text)}/", below)
        case "zip":
            archive = members.require("base", lambda value, where: KvStore.parse(value, where, context))
            return _zipped(archive, below, members.at("base"))
        case "s3":
            bucket = members.require("bucket", text)
            options = {
                "endpoint_url": members.take("endpoint", text, None),
                "region": members.take("aws_region", text, None),
                "requester_pays": members.take("requester_pays", boolean, None),
            }
            given = {name: value for name, value in options.items() if value is not None}
            return KvStore(f"s3://{bucket}/", below, given)
        case _:
            base = members.require("base_url", text)
            headers = members.take("headers", _headers, None)
            if urlsplit(base).scheme not in ("http", "https"):
                raise invalid(members.at("base_url"), f"expected an http:// or https:// URL, not {shown(base)}")
            return KvStore(f"{base.removesuffix('/')}/", below, {"headers": headers} if headers else {})


def _headers(value: JSON, path: str) -> dict[str, str]:
    pairs = [(where, *text(each, where).partition(":")) for where, each in items(value, path)]
    for where, name, colon, _ in pairs:
        if not colon:
            raise invalid(where, f"a header must have the form 'Name: value', not {name!r}")
    return {name.strip(): content.strip() for _, name, _, content in pairs}
