"""The endpoint and the source of credentials of an S3 bucket, found in options and environment by pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from aiozarr.http1.request import quote_key
from aiozarr.http1.url import WebAddress
from aiozarr.model import check_key
from aiozarr.stores.option_table import is_set
from aiozarr.stores.s3.s3_options import S3Options

Source = Literal["anonymous", "given", "environment", "profile", "chain"]
"""The source of credentials: none, options, environment, a profile, or the search of the client library."""


@dataclass(frozen=True, slots=True)
class S3Configuration:
    """The options of S3 in the configuration files of the AWS tools, for one profile."""

    region: str | None = None
    endpoint_url: str | None = None


NOTHING_CONFIGURED = S3Configuration()


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """A bucket's address.

    Attributes:
        bucket: the bucket's name.
        base: the URL of the bucket, percent-encoded, without a slash at its end.
        region: the region of signatures.
        aws: True for AWS itself, False for another server with the protocol of S3.
        virtual_hosted: True if the bucket is in the host name.
        fixed: the address is the same for all regions; only signatures change with the region.
    """

    bucket: str
    base: str
    region: str
    aws: bool
    virtual_hosted: bool
    fixed: bool = False

    @property
    def web(self) -> WebAddress:
        return WebAddress.parse(self.base)


_TEMPLATE = "s3://bucket/path"
_ARN = re.compile(
    r"arn:(aws[a-z-]*):(s3[a-z-]*):([a-z0-9-]*):(\d{12}):(accesspoint[/:]([a-z0-9][a-z0-9-]{1,48}[a-z0-9]))?"
)


def parse_url(url: str) -> tuple[str, str]:
    """Return bucket and root (a prefix ending with `/`, or `""`) of an `s3://bucket/root` URL.

    The path is not percent-encoded, as in fsspec and the AWS tools. The ARN of an access point may replace the
    bucket.

    Raises:
        ValueError: it is no such URL.
        InvalidKeyError: the root is no valid key.
    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("s3", "s3a") or not separator:
        raise ValueError(f"an object store's URL is {_TEMPLATE}")
    if rest.startswith("arn:"):
        bucket, root = _split_arn(rest)
    else:
        bucket, _, root = rest.partition("/")
        if "@" in unquote(bucket):
            raise ValueError("credentials do not belong into the URL of a bucket: give the options 'key' and 'secret'")
        if not bucket.strip(".") or not bucket.isascii() or not all(c.isalnum() or c in ".-_" for c in bucket):
            raise ValueError(f"not a bucket's name: {bucket!r}")
        if bucket.endswith("--x-s3"):
            raise ValueError("directory buckets (S3 Express One Zone) are not supported")
    root = root.removesuffix("/")
    return bucket, f"{check_key(root)}/" if root else ""


def _split_arn(text: str) -> tuple[str, str]:
    found = _ARN.match(text)
    if found is None or found[2] != "s3" or not found[3] or not found[6]:
        raise ValueError(
            "of ARNs, a bucket's place can be taken by an access point's of one region: "
            "s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/path"
        )
    bucket, rest = text[: found.end()], text[found.end() :]
    if rest and not rest.startswith("/"):
        raise ValueError("an access point's name ends before a '/'")
    return bucket.replace(":accesspoint:", ":accesspoint/"), rest[1:]


def find_endpoint(
    bucket: str,
    options: S3Options,
    environ: Mapping[str, str],
    region: str | None = None,
    configured: S3Configuration = NOTHING_CONFIGURED,
) -> S3Endpoint:
    """Return the endpoint of `bucket`.

    Args:
        bucket: a bucket's name, or the ARN of an access point.
        options: the given options.
        environ: the environment.
        region: the region in a response of the server, which overrides all others.
        configured: the options of the configuration files of the AWS tools.
    """
    endpoint = find_endpoint_url(options, environ, configured)
    server = None if endpoint is None else _server(endpoint)
    of_aws = None if server is None else _AWS_HOST.fullmatch(server.host)
    named = region or find_region(options, environ, configured)
    arn = _ARN.match(bucket)
    if arn is not None:
        return _access_point(bucket, arn)
    if server is None or (of_aws is not None and not server.path):
        # An endpoint of AWS without a path is the default one.
        named = named or (of_aws and of_aws[1]) or "us-east-1"
        if not _REGION.fullmatch(named):  # it becomes a part of the host
            raise ValueError(f"not a region of AWS: {named!r}")
        virtual = "." not in bucket if options.virtual_hosted is None else options.virtual_hosted
        if virtual:
            _check_hosted(bucket, "amazonaws.com")
        scheme = "https" if server is None else server.scheme
        host = f"s3.{named}.{_suffix(named)}"
        base = f"{scheme}://{bucket}.{host}" if virtual else f"{scheme}://{host}/{bucket}"
        return S3Endpoint(bucket, base, named, True, virtual)
    virtual = bool(options.virtual_hosted)
    if virtual:
        _check_hosted(bucket, server.host)
        base = f"{server.scheme}://{bucket}.{server.authority}{server.path}"
    else:
        base = f"{server.shown}/{quote_key(bucket)}"
    trusted = server.host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    return S3Endpoint(bucket, base, named or "us-east-1", trusted, virtual, fixed=True)


def _check_hosted(bucket: str, host: str) -> None:
    """Check that the bucket's name before the host is a valid host name; otherwise the client library panics.

    A host name that ends with a number would be parsed as an IPv4 address.
    """
    if ":" in host or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise ValueError(
            "a bucket cannot be put into the host's name (the option 'virtual_hosted') where that is an IP address: "
            "give the server's name, or leave the option out"
        )
    if any(label.startswith("xn--") for label in bucket.lower().split(".")):
        raise ValueError(f"the bucket's name {bucket!r} cannot be a part of the host's: give virtual_hosted=False")


_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_AWS_HOST = re.compile(r"s3(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com(?:\.cn)?")


def _suffix(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def _access_point(bucket: str, arn: re.Match[str]) -> S3Endpoint:
    region = arn[3]
    base = f"https://{arn[6]}-{arn[4]}.s3-accesspoint.{region}.{_suffix(region)}"
    return S3Endpoint(bucket, base, region, True, True, fixed=True)


def _server(endpoint: str) -> WebAddress:
    if "://" not in endpoint:
        raise ValueError("an endpoint's URL begins with http:// or https://")
    return WebAddress.of_endpoint(endpoint)


def find_endpoint_url(
    options: S3Options, environ: Mapping[str, str], configured: S3Configuration = NOTHING_CONFIGURED
) -> str | None:
    """Return the endpoint's URL, from the options, the environment or the configuration files; None: AWS."""
    if options.endpoint_url is not None:
        return options.endpoint_url
    if is_set(environ, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return None
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        if environ.get(name):
            return environ[name]
    return configured.endpoint_url


def find_region(
    options: S3Options, environ: Mapping[str, str], configured: S3Configuration = NOTHING_CONFIGURED
) -> str | None:
    """Return the region that the options, the environment or the configuration files name."""
    return options.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or configured.region or None


def find_source(options: S3Options, environ: Mapping[str, str], has_files: bool) -> Source:
    """Return the source of the credentials, in the order of the AWS tools.

    Args:
        options: the given options.
        environ: the environment.
        has_files: whether credential files exist, and the package that reads them is installed.
    """
    if options.anon or (options.anon is None and is_set(environ, "AWS_SKIP_SIGNATURE")):
        return "anonymous"
    if options.key is not None:
        return "given"
    if options.profile is not None:
        return "profile"
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return "environment"
    if options.chain:
        return "chain"
    if environ.get("AWS_PROFILE") or has_files:
        return "profile"
    return "chain"


def sends_found_credentials_openly(endpoint: S3Endpoint, options: S3Options, source: Source) -> bool:
    """Return whether credentials that were not given for this endpoint would be sent without TLS."""
    return endpoint.web.exposed and options.endpoint_url is not None and source in _FOUND


_FOUND = frozenset({"environment", "profile", "chain"})
