"""The storage options of S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiozarr.stores.options.table import Option, Table


@dataclass(frozen=True, slots=True)
class S3Options:
    """The options of an S3 store that were given; None: not given.

    Attributes:
        anon: send unsigned requests, to public buckets.
        key, secret, token: an access key, its secret and, for temporary credentials, the session token.
        profile: a profile of `~/.aws`.
        endpoint_url: an S3-compatible server, for which buckets are then part of the path.
        region: the bucket's region.
        requester_pays: the requests are paid by these credentials' account.
        virtual_hosted: put the bucket into the host name; None: for AWS itself.
        max_connections, idle_timeout, connect_timeout: as for `HTTPStore`.
    """

    anon: bool | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    profile: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    requester_pays: bool | None = None
    virtual_hosted: bool | None = None
    max_connections: int | None = None
    idle_timeout: float | None = None
    connect_timeout: float | None = None


S3_TABLE = Table(
    store="an S3 store",
    options=(
        Option("anon", "flag", obstore=("skip_signature",)),
        Option("key", fsspec=("key", "username", "aws_access_key_id"), obstore=("access_key_id",)),
        Option("secret", fsspec=("secret", "password", "aws_secret_access_key"), obstore=("secret_access_key",)),
        Option("token", fsspec=("token", "aws_session_token"), obstore=("session_token",)),
        Option("profile", "words", obstore=()),
        Option("endpoint_url", fsspec=("endpoint_url",), obstore=("endpoint",)),
        Option("region", fsspec=("client_kwargs.region_name", "region_name"), obstore=("default_region",)),
        Option("requester_pays", "flag", obstore=("request_payer",)),
        Option("virtual_hosted", "flag", obstore=("virtual_hosted_style_request",), ours_only=True),
        Option("max_connections", "count", ours_only=True),
        Option("idle_timeout", "seconds", ours_only=True),
        Option("connect_timeout", "seconds", ours_only=True),
    ),
    prefixes=("aws_",),
    nested=("client_kwargs",),
    without_effect=(
        "asynchronous",
        "cache_regions",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "loop",
        "max_concurrency",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    ),
)


def s3_options(given: Mapping[str, Any]) -> S3Options:
    """Translate `storage_options` of an S3 store.

    `client_kwargs`, as s3fs takes it, is looked into. An option that is None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type; the message lists the known ones.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    options = S3Options(**S3_TABLE.translate(given))
    if (options.key is None) != (options.secret is None):
        raise ValueError("the storage options 'key' and 'secret' go together")
    if options.token is not None and options.key is None:
        raise ValueError("the storage option 'token' goes with 'key' and 'secret'")
    if options.anon and (options.key is not None or options.profile is not None):
        raise ValueError("the storage option 'anon' sends no credentials, and credentials are given")
    if options.profile is not None and options.key is not None:
        raise ValueError("the storage options 'profile' and 'key' exclude each other")
    return options
