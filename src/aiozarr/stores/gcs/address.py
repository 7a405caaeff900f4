"""The endpoint and the source of credentials of a GCS bucket, found in options and environment by pure functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

from aiozarr.http1.request import check_headers, quote_key
from aiozarr.http1.url import WebAddress
from aiozarr.model import check_key
from aiozarr.stores.options.gcs_options import GcsOptions
from aiozarr.stores.options.option_table import is_set

GOOGLE = "https://storage.googleapis.com"

Source = Literal["anonymous", "token", "file", "document", "credentials", "metadata", "default"]
"""The source of credentials: none, an access token, a file, a document, an object of google-auth, the metadata service
of Google's machines, or the search of Google's tools (application default credentials)."""


@dataclass(frozen=True, slots=True)
class GcsEndpoint:
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

    def rewrite_path(self, key: str, bucket: str, target: str) -> str:
        """Return the path that copies an object of this bucket to the object `target` of `bucket` (JSON API)."""
        return f"{self.list_path}/{quote(key, safe='')}/rewriteTo/b/{bucket}/o/{quote(target, safe='')}"

    def upload_target(self, kind: str, key: str, **query: str) -> str:
        """Return path and query for an upload of a kind: "multipart" or "resumable"."""
        more = "".join(f"&{name}={quote(value, safe='')}" for name, value in query.items())
        path = f"{self.web.path}/upload/storage/v1/b/{self.bucket}/o"
        return f"{path}?uploadType={kind}&name={quote(key, safe='')}&fields=generation{more}"


def parse_url(url: str) -> tuple[str, str]:
    """Return bucket and root (a prefix ending with `/`, or `""`) of a `gs://bucket/root` URL.

    The path is not percent-encoded, as in fsspec and the Google tools.

    Raises:
        ValueError: it is not such a URL.
        InvalidKeyError: the root is not a valid key.
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


def find_endpoint(bucket: str, options: GcsOptions, environ: Mapping[str, str]) -> GcsEndpoint:
    """Return the endpoint of `bucket`.

    Raises:
        ValueError: the endpoint is not the URL of a server.
    """
    web = WebAddress.of_endpoint(find_endpoint_url(options, environ) or GOOGLE)
    return GcsEndpoint(bucket, web, web.host == "googleapis.com" or web.host.endswith(".googleapis.com"))


def find_endpoint_url(options: GcsOptions, environ: Mapping[str, str]) -> str | None:
    """Return the endpoint's URL from the options or the environment, or None for Google.

    The scheme in `STORAGE_EMULATOR_HOST` is optional, and http by default.
    """
    if options.endpoint_url is not None:
        return options.endpoint_url
    emulator = environ.get("STORAGE_EMULATOR_HOST", "")
    if emulator in ("", "default"):
        return None
    return emulator if "://" in emulator else f"http://{emulator}"


def find_source(options: GcsOptions, environ: Mapping[str, str], *, google: bool) -> Source:
    """Return the source of the credentials.

    Args:
        options: the given options.
        environ: the environment.
        google: whether the server is Google's. Another one gets only credentials that were given.

    Raises:
        ValueError: a file of credentials does not exist, or a token cannot be sent.
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
    if token.endswith(".json") or token.startswith(("/", "~", "./", "../")):  # a token may have such a form
        raise ValueError("the storage option 'token' names a file of credentials that is not there")
    check_headers({"Authorization": token})
    return "token"


def sends_credentials_openly(endpoint: GcsEndpoint, source: Source) -> bool:
    """Return whether tokens would be sent to another machine without TLS."""
    return endpoint.web.exposed and source != "anonymous"
