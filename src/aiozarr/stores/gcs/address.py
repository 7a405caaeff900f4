"""Where a GCS bucket is reached and as whom: options and environment, decided as pure functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

from aiozarr.model import check_key
from aiozarr.stores.http.url import WebAddress
from aiozarr.stores.lane import check_headers, quote_key
from aiozarr.stores.options.gcs import GcsOptions
from aiozarr.stores.options.table import is_set

GOOGLE = "https://storage.googleapis.com"

Source = Literal["anonymous", "token", "file", "document", "credentials", "metadata", "default"]
"""Whose credentials: none, an access token, those of a file, of a document or an object that was given, those that the
metadata service of Google's machines gives, or what Google's own tools find (application default credentials)."""


@dataclass(frozen=True, slots=True)
class GcsPlace:
    """A bucket's address.

    Attributes:
        bucket: the bucket's name.
        web: the server.
        google: True for Google itself, False for another server that speaks its protocol, such as an emulator.
    """

    bucket: str
    web: WebAddress
    google: bool

    def object_path(self, key: str) -> str:
        """Return the path of an object in the XML API."""
        return f"{self.web.path}/{self.bucket}/{quote_key(key)}"

    @property
    def list_path(self) -> str:
        """The path of listings in the JSON API."""
        return f"{self.web.path}/storage/v1/b/{self.bucket}/o"

    def upload_url(self, kind: str, key: str, **query: str) -> str:
        """Return the URL for an upload of a kind: "multipart" or "resumable"."""
        more = "".join(f"&{name}={quote(value, safe='')}" for name, value in query.items())
        path = f"{self.web.origin}{self.web.path}/upload/storage/v1/b/{self.bucket}/o"
        return f"{path}?uploadType={kind}&name={quote(key, safe='')}&fields=generation{more}"


def parse_url(url: str) -> tuple[str, str]:
    """Return bucket and root (a prefix ending with `/`, or `""`) of a `gs://bucket/root` URL.

    The path is taken as it is, as fsspec and the Google tools do: it is not percent-encoded.

    Raises:
        ValueError: it is no such URL.
        InvalidKeyError: the root is no valid key.
    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("gs", "gcs") or not separator:
        raise ValueError("a GCS store's URL is gs://bucket/path")
    bucket, _, root = rest.partition("/")
    if "@" in unquote(bucket):
        raise ValueError("credentials do not belong into the URL of a bucket: give the option 'token'")
    if not bucket.strip(".") or not bucket.isascii() or not all(c.isalnum() or c in ".-_" for c in bucket):
        raise ValueError(f"not a bucket's name: {bucket!r}")
    root = root.removesuffix("/")
    return bucket, f"{check_key(root)}/" if root else ""


def find_place(bucket: str, options: GcsOptions, environ: Mapping[str, str]) -> GcsPlace:
    """Return where `bucket` is reached.

    Raises:
        ValueError: the endpoint is no URL of a server.
    """
    web = WebAddress.of_endpoint(find_endpoint(options, environ) or GOOGLE)
    return GcsPlace(bucket, web, web.host == "googleapis.com" or web.host.endswith(".googleapis.com"))


def find_endpoint(options: GcsOptions, environ: Mapping[str, str]) -> str | None:
    """Return the endpoint's URL, from the options or the environment; None: Google.

    `STORAGE_EMULATOR_HOST` may leave out the scheme, which is http then.
    """
    if options.endpoint_url is not None:
        return options.endpoint_url
    emulator = environ.get("STORAGE_EMULATOR_HOST", "")
    if emulator in ("", "default"):
        return None
    return emulator if "://" in emulator else f"http://{emulator}"


def find_source(options: GcsOptions, environ: Mapping[str, str], *, google: bool) -> Source:
    """Return whose credentials count.

    Args:
        options: what was given.
        environ: the environment.
        google: whether the server is Google's; another one is asked without credentials unless some are asked for.

    Raises:
        ValueError: a file of credentials is named that is not there, or a token cannot be sent.
    """
    token = options.token
    if options.anon or (options.anon is None and token is None and is_set(environ, "GOOGLE_SKIP_SIGNATURE")):
        return "anonymous"
    if token is None:
        return "default" if google else "anonymous"
    if isinstance(token, Mapping):
        return "document"
    if not isinstance(token, str):
        return "anonymous" if type(token).__name__ == "AnonymousCredentials" else "credentials"
    if token in ("google_default", "cloud"):
        return "default" if token == "google_default" else "metadata"
    path = os.path.expanduser(token)
    if os.path.isfile(path):
        return "file"
    if options.path_from is not None:
        raise ValueError(
            f"the storage option {options.path_from!r} names a file of credentials that is not there: {token!r}"
        )
    if token.endswith(".json") or token.startswith(("/", "~", "./", "../")):  # which may be a token, for all that
        raise ValueError("the storage option 'token' names a file of credentials that is not there")
    check_headers({"Authorization": token})
    return "token"


def sends_credentials_openly(place: GcsPlace, source: Source) -> bool:
    """Return whether tokens would go out without TLS, to another machine."""
    return place.web.exposed and source != "anonymous"
