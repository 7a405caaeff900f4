"""Where an S3 bucket is reached and as whom: options and environment, decided as pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from aiozarr.model import check_key
from aiozarr.stores.http.url import WebAddress
from aiozarr.stores.lane import quote_key
from aiozarr.stores.options.s3 import S3Options

Source = Literal["anonymous", "given", "environment", "profile", "chain"]
"""Whose credentials: none, those given, those of the environment, a profile's, or what the cloud's own chain finds."""

_TRUE = frozenset({"true", "1", "yes", "on", "requester"})


@dataclass(frozen=True, slots=True)
class S3Place:
    """A bucket's address.

    Attributes:
        bucket: the bucket's name.
        base: the URL of the bucket, percent-encoded, without a slash at its end.
        region: for signatures.
        aws: True for AWS itself, False for another server that speaks S3.
        virtual_hosted: True where the bucket is in the host name.
    """

    bucket: str
    base: str
    region: str
    aws: bool
    virtual_hosted: bool

    @property
    def web(self) -> WebAddress:
        return WebAddress.parse(self.base)


def parse_url(url: str) -> tuple[str, str]:
    """Return bucket and root (a prefix ending with `/`, or `""`) of an `s3://bucket/root` URL.

    The path is taken as it is, as fsspec and the AWS tools do: it is not percent-encoded.

    Raises:
        ValueError: it is no such URL.
        InvalidKeyError: the root is no valid key.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in ("s3", "s3a") or not separator:
        raise ValueError("an object store's URL is s3://bucket/path")
    bucket, _, root = rest.partition("/")
    if not bucket or not bucket.isascii() or not all(c.isalnum() or c in ".-_" for c in bucket):
        raise ValueError(f"not a bucket's name: {unquote(bucket)!r}")
    root = root.removesuffix("/")
    return bucket, f"{check_key(root)}/" if root else ""


def find_place(bucket: str, options: S3Options, environ: Mapping[str, str], region: str | None = None) -> S3Place:
    """Return where `bucket` is reached; `region` is one that was found out, and counts where none is named."""
    named = find_region(options, environ) or region or "us-east-1"
    endpoint = find_endpoint(options, environ)
    if endpoint is None:
        virtual = "." not in bucket if options.virtual_hosted is None else options.virtual_hosted
        suffix = "amazonaws.com.cn" if named.startswith("cn-") else "amazonaws.com"
        host = f"s3.{named}.{suffix}"
        base = f"https://{bucket}.{host}" if virtual else f"https://{host}/{bucket}"
        return S3Place(bucket, base, named, True, virtual)
    server = WebAddress.parse(endpoint)
    if server.user is not None or server.query:
        raise ValueError("an endpoint's URL holds no credentials and no query")
    virtual = bool(options.virtual_hosted)
    if virtual:
        base = f"{server.scheme}://{bucket}.{server.authority}{server.path}"
    else:
        base = f"{server.shown}/{quote_key(bucket)}"
    return S3Place(bucket, base, named, False, virtual)


def find_endpoint(options: S3Options, environ: Mapping[str, str]) -> str | None:
    """Return the endpoint's URL, from the options or the environment; None: AWS."""
    if options.endpoint_url is not None:
        return options.endpoint_url
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        if environ.get(name):
            return environ[name]
    return None


def find_region(options: S3Options, environ: Mapping[str, str]) -> str | None:
    """Return the region that the options or the environment name."""
    return options.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or None


def find_source(options: S3Options, environ: Mapping[str, str], has_files: bool) -> Source:
    """Return whose credentials count, in the order of the AWS tools.

    Args:
        options: what was given.
        environ: the environment.
        has_files: whether there are credential files, and the package that reads them.
    """
    if options.anon or (options.anon is None and environ.get("AWS_SKIP_SIGNATURE", "").lower() in _TRUE):
        return "anonymous"
    if options.key is not None:
        return "given"
    if options.profile is not None:
        return "profile"
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return "environment"
    if environ.get("AWS_PROFILE") or has_files:
        return "profile"
    return "chain"


def sends_found_credentials_openly(place: S3Place, options: S3Options, source: Source) -> bool:
    """Return whether credentials that nobody gave for this endpoint would go out without TLS."""
    web = place.web
    local = web.host == "localhost" or web.host.startswith("127.") or web.host == "::1"
    return not web.secure and not local and options.endpoint_url is not None and source in _FOUND


_FOUND = frozenset({"environment", "profile", "chain"})
