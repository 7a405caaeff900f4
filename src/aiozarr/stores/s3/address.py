"""Where an S3 bucket is reached and as whom: options and environment, decided as pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from aiozarr.model import check_key
from aiozarr.stores.http.url import WebAddress
from aiozarr.stores.lane import quote_key
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.options.table import is_set

Source = Literal["anonymous", "given", "environment", "profile", "chain"]
"""Whose credentials: none, those given, those of the environment, a profile's, or what the cloud's own chain finds."""


@dataclass(frozen=True, slots=True)
class Configured:
    """What the configuration files of the AWS tools say about S3, for the profile that counts."""

    region: str | None = None
    endpoint_url: str | None = None


NOTHING_CONFIGURED = Configured()


@dataclass(frozen=True, slots=True)
class S3Place:
    """A bucket's address.

    Attributes:
        bucket: the bucket's name.
        base: the URL of the bucket, percent-encoded, without a slash at its end.
        region: for signatures.
        aws: True for AWS itself, False for another server that speaks S3.
        virtual_hosted: True where the bucket is in the host name.
        fixed: the address stays as it is when another region is told; requests are then signed for that one.
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

    The path is taken as it is, as fsspec and the AWS tools do: it is not percent-encoded. The ARN of an access point
    stands for a bucket.

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


def find_place(
    bucket: str,
    options: S3Options,
    environ: Mapping[str, str],
    region: str | None = None,
    configured: Configured = NOTHING_CONFIGURED,
) -> S3Place:
    """Return where `bucket` is reached.

    Args:
        bucket: a bucket's name, or the ARN of an access point.
        options: what was given.
        environ: the environment.
        region: one that the server told, which counts before all others.
        configured: what the configuration files of the AWS tools say.
    """
    endpoint = find_endpoint(options, environ, configured)
    server = None if endpoint is None else _server(endpoint)
    of_aws = None if server is None else _AWS_HOST.fullmatch(server.host)
    named = region or find_region(options, environ, configured)
    arn = _ARN.match(bucket)
    if arn is not None:
        return _access_point(bucket, arn)
    if server is None or (of_aws is not None and not server.path):
        # The plain endpoints of AWS, written out, are what is asked without any.
        named = named or (of_aws and of_aws[1]) or "us-east-1"
        if not _REGION.fullmatch(named):  # it becomes a part of the host
            raise ValueError(f"not a region of AWS: {named!r}")
        virtual = "." not in bucket if options.virtual_hosted is None else options.virtual_hosted
        if virtual:
            _check_hosted(bucket, "amazonaws.com")
        scheme = "https" if server is None else server.scheme
        host = f"s3.{named}.{_suffix(named)}"
        base = f"{scheme}://{bucket}.{host}" if virtual else f"{scheme}://{host}/{bucket}"
        return S3Place(bucket, base, named, True, virtual)
    virtual = bool(options.virtual_hosted)
    if virtual:
        _check_hosted(bucket, server.host)
        base = f"{server.scheme}://{bucket}.{server.authority}{server.path}"
    else:
        base = f"{server.shown}/{quote_key(bucket)}"
    trusted = server.host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    return S3Place(bucket, base, named or "us-east-1", trusted, virtual, fixed=True)


def _check_hosted(bucket: str, host: str) -> None:
    """See that a bucket's name in front of the host makes a host's name; the client library panics where it does not.

    A name that ends with a number is read as an IPv4 address, which it is none of then.
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


def _access_point(bucket: str, arn: re.Match[str]) -> S3Place:
    region = arn[3]
    base = f"https://{arn[6]}-{arn[4]}.s3-accesspoint.{region}.{_suffix(region)}"
    return S3Place(bucket, base, region, True, True, fixed=True)


def _server(endpoint: str) -> WebAddress:
    if "://" not in endpoint:
        raise ValueError("an endpoint's URL begins with http:// or https://")
    return WebAddress.of_endpoint(endpoint)


def find_endpoint(
    options: S3Options, environ: Mapping[str, str], configured: Configured = NOTHING_CONFIGURED
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
    options: S3Options, environ: Mapping[str, str], configured: Configured = NOTHING_CONFIGURED
) -> str | None:
    """Return the region that the options, the environment or the configuration files name."""
    return options.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or configured.region or None


def find_source(options: S3Options, environ: Mapping[str, str], has_files: bool) -> Source:
    """Return whose credentials count, in the order of the AWS tools.

    Args:
        options: what was given.
        environ: the environment.
        has_files: whether there are credential files, and the package that reads them.
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


def sends_found_credentials_openly(place: S3Place, options: S3Options, source: Source) -> bool:
    """Return whether credentials that nobody gave for this endpoint would go out without TLS."""
    return place.web.exposed and options.endpoint_url is not None and source in _FOUND


_FOUND = frozenset({"environment", "profile", "chain"})
