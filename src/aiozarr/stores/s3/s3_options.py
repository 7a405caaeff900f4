"""The storage options of S3."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aiozarr.stores.option_table import Option, OptionTable, option, options_of

UPLOAD_OPTIONS = ("server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "checksum_algorithm")
_CHAIN = (
    *("role_arn", "role_session_name", "web_identity_token_file", "sts_endpoint"),
    *("container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file"),
    *("metadata_endpoint", "imdsv1_fallback"),
)


@dataclass(frozen=True, slots=True)
class S3Options:
    """The given options of an S3 store. None means that an option is not given.

    Attributes:
        anon: do not sign; public buckets.
        key: an access key; goes with `secret`.
        secret: the secret of `key`.
        token: the session token of temporary credentials; goes with `key` and `secret`.
        profile: a profile of the AWS configuration; needs the extra `s3`.
        endpoint_url: a server other than AWS, with `http://` or `https://`. Buckets are then part of the path.
        region: the bucket's region; AWS is asked for it where none is named.
        requester_pays: the reader pays for requests and transfer.
        virtual_hosted: the bucket is a part of the host's name, not of the path. None means True for AWS only.
        bulk_delete: remove a thousand keys in one request, which some servers do not support. None means True.
        verify: `False`, or a file of certificates to trust.
        root_certificate: further certificates to trust, as PEM.
        proxy: the URL of a proxy for all requests.
        server_side_encryption: how the server encrypts what is written: `AES256`, `aws:kms`, `aws:kms:dsse`.
        sse_kms_key_id: the KMS key for `aws:kms`.
        sse_bucket_key_enabled: one data key for the bucket, in place of one for every object.
        checksum_algorithm: a checksum that is sent with what is written: `CRC32C`, `SHA256`, `CRC64NVME` (package
            `awscrt`).
        role_arn, role_session_name, web_identity_token_file, sts_endpoint, container_credentials_relative_uri,
            container_credentials_full_uri, container_authorization_token_file, metadata_endpoint,
            imdsv1_fallback: where credentials are found: web identity, container, instance.
        max_connections: connections at once; 1024.
        idle_timeout: without progress; 20 s.
        connect_timeout: 20 s.
    """

    anon: bool | None = option("flag", obstore=("skip_signature",))
    key: str | None = option(shown=False, fsspec=("key", "username", "aws_access_key_id"), obstore=("access_key_id",))
    secret: str | None = option(
        shown=False, fsspec=("secret", "password", "aws_secret_access_key"), obstore=("secret_access_key",)
    )
    token: str | None = option(shown=False, fsspec=("token", "aws_session_token"), obstore=("session_token",))
    profile: str | None = option("words")
    endpoint_url: str | None = option(obstore=("endpoint", "endpoint_url_s3"))
    region: str | None = option(
        fsspec=("client_kwargs.region_name", "region_name", "config_kwargs.region_name"), obstore=("default_region",)
    )
    requester_pays: bool | None = option(
        "flag", fsspec=("requester_pays", "s3_additional_kwargs.RequestPayer"), obstore=("request_payer",)
    )
    virtual_hosted: bool | None = option(
        "flag",
        fsspec=("config_kwargs.s3.addressing_style",),
        obstore=("virtual_hosted_style_request",),
        spelled={True: "virtual", False: "path", None: "auto"},
    )
    bulk_delete: bool | None = None
    verify: bool | str | None = option("any", fsspec=("client_kwargs.verify",))
    root_certificate: str | None = option("any", ours_only=True)
    proxy: str | None = option(shown=False, obstore=("proxy_url",), ours_only=True)
    server_side_encryption: str | None = option(fsspec=("s3_additional_kwargs.ServerSideEncryption",))
    sse_kms_key_id: str | None = option(fsspec=("s3_additional_kwargs.SSEKMSKeyId",))
    sse_bucket_key_enabled: bool | None = option("flag", fsspec=("s3_additional_kwargs.BucketKeyEnabled",))
    checksum_algorithm: str | None = option(fsspec=("s3_additional_kwargs.ChecksumAlgorithm",))
    role_arn: str | None = option("words", shown=False, ours_only=True)
    role_session_name: str | None = option("words", shown=False, ours_only=True)
    web_identity_token_file: str | None = option("words", shown=False, ours_only=True)
    sts_endpoint: str | None = option("words", shown=False, obstore=("endpoint_url_sts",), ours_only=True)
    container_credentials_relative_uri: str | None = option("words", shown=False, ours_only=True)
    container_credentials_full_uri: str | None = option("words", shown=False, ours_only=True)
    container_authorization_token_file: str | None = option("words", shown=False, ours_only=True)
    metadata_endpoint: str | None = option("words", shown=False, ours_only=True)
    imdsv1_fallback: bool | None = option("flag", shown=False, ours_only=True)
    max_connections: int | None = option("count", fsspec=("config_kwargs.max_pool_connections",))
    idle_timeout: float | None = option("seconds", fsspec=("config_kwargs.read_timeout",), obstore=("read_timeout",))
    connect_timeout: float | None = option("seconds", fsspec=("config_kwargs.connect_timeout",))

    @property
    def chain(self) -> dict[str, str | bool]:
        """The given options of where credentials are searched."""
        return {name: value for name in _CHAIN if (value := getattr(self, name)) is not None}


S3_TABLE = OptionTable(
    store="an S3 store",
    options=(
        *options_of(S3Options),
        Option("allow_invalid_certificates", "flag", ours_only=True, about="as `verify=False`"),
        Option(
            "proxies",
            "mapping",
            fsspec=("config_kwargs.proxies",),
            about="URLs of proxies by the scheme of the endpoint",
        ),
        Option("signature_version", "any", fsspec=("config_kwargs.signature_version",), about="`s3v4`, or unsigned"),
        Option("disable_bulk_delete", "flag", ours_only=True, about="for servers that remove one key in a request"),
    ),
    prefixes=("aws_",),
    nested=("client_kwargs", "config_kwargs", "config_kwargs.s3", "s3_additional_kwargs", "config", "client_options"),
    without_effect=(
        "cache_regions client_kwargs.retries config_kwargs.request_checksum_calculation "
        "config_kwargs.response_checksum_validation config_kwargs.retries config_kwargs.tcp_keepalive "
        "config_kwargs.user_agent fixed_upload_size local_expiry_check max_concurrency timeout "
        "unsigned_payload use_ssl"
    ),
)


def s3_options(given: Mapping[str, Any]) -> S3Options:
    """Translate `storage_options` of an S3 store.

    Options may also be in `client_kwargs` and `config_kwargs` of s3fs, and in `config` and `client_options` of obstore.
    An option that is None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    found = S3_TABLE.translate(given)
    _merge_signature(found)
    _merge_trust(found)
    _merge_proxy(found)
    if found.pop("disable_bulk_delete", False):
        found["bulk_delete"] = False
    if found.get("token") == "":  # from an environment without a session token
        del found["token"]
    options = S3Options(**found)
    _check_credentials(options)
    if options.server_side_encryption == "sse-c":
        raise ValueError("keys of one's own ('sse-c') would have to be sent with every read, which is not supported")
    return options


def _check_credentials(options: S3Options) -> None:
    if options.key == "" or options.secret == "":
        raise ValueError("the storage options 'key' and 'secret' are empty")
    if (options.key is None) != (options.secret is None):
        raise ValueError("the storage options 'key' and 'secret' go together")
    if options.token is not None and options.key is None:
        raise ValueError("the storage option 'token' goes with 'key' and 'secret'")
    if options.anon and (options.key is not None or options.profile is not None):
        raise ValueError("the storage option 'anon' sends no credentials, and credentials are given")
    if options.profile is not None and options.key is not None:
        raise ValueError("the storage options 'profile' and 'key' exclude each other")


def _merge_signature(found: dict[str, Any]) -> None:
    version = found.pop("signature_version", "s3v4")
    if type(version).__name__ == "UNSIGNED":  # botocore's marker, without importing botocore
        if found.setdefault("anon", True) is not True:
            raise ValueError("the storage options 'anon' and 'signature_version' contradict each other")
    elif not isinstance(version, str) or version not in ("s3v4", "v4"):
        raise ValueError("requests are signed by version 4 ('s3v4'), or not at all (anon=True)")


def _merge_trust(found: dict[str, Any]) -> None:
    verify, certificate = found.get("verify"), found.get("root_certificate")
    if isinstance(verify, os.PathLike):
        verify = found["verify"] = os.fspath(verify)
    if verify is not None and not isinstance(verify, (bool, str)):
        raise TypeError("the storage option 'verify' is a bool or the path of a file")
    if isinstance(certificate, bytes):
        found["root_certificate"] = certificate.decode("ascii")
    elif certificate is not None and not isinstance(certificate, str):
        raise TypeError("the storage option 'root_certificate' is a str or bytes")
    if found.pop("allow_invalid_certificates", False) and found.setdefault("verify", False) is not False:
        raise ValueError("the storage options 'verify' and 'allow_invalid_certificates' contradict each other")


def _merge_proxy(found: dict[str, Any]) -> None:
    proxies = found.pop("proxies", None)
    if not proxies:
        return
    scheme = urlsplit(found.get("endpoint_url") or "https://").scheme
    proxy = proxies.get(scheme)
    if proxy is not None and not isinstance(proxy, str):
        raise TypeError("the storage option 'proxies' maps schemes to the URLs of proxies")
    if proxy is not None and found.setdefault("proxy", proxy) != proxy:
        raise ValueError("the storage options 'proxy' and 'proxies' contradict each other")
