"""The storage options of S3, and the endpoint and the source of credentials of a bucket.

Pure functions find both in options and environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from aiozarr.http1.request import quote_key
from aiozarr.http1.url import WebAddress
from aiozarr.model import check_key
from aiozarr.stores.option_table import Option, OptionTable, is_set, option, options_of

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
        anon: send unsigned requests, for public buckets.
        key: the access key; needs `secret`.
        secret: the secret of the access key; needs `key`.
        token: the session token of temporary credentials; needs `key` and `secret`.
        profile: a profile of the AWS configuration; needs the extra `s3`.
        endpoint_url: a server other than AWS, with `http://` or `https://`. The bucket is then part of the path.
        region: the bucket's region. Without it, aiozarr asks AWS for the region.
        foreign_endpoint: `endpoint_url` comes from somebody whom you do not trust. It receives credentials that were
            found on this machine only if it is an AWS host, or if this machine's configuration names it too.
        requester_pays: you pay for requests and transfer.
        virtual_hosted: `True` puts the bucket into the host name, `False` into the path. Without it, the AWS
            configuration decides, then the server: host name on AWS if the bucket's name allows it, path elsewhere.
        use_fips_endpoint: use the FIPS hosts of AWS.
        use_dualstack_endpoint: use the dual-stack (IPv4 and IPv6) hosts of AWS.
        bulk_delete: remove a thousand keys in one request, which some servers do not support. None means True.
        request_checksum_calculation: `when_required` sends a checksum only if `checksum_algorithm` names one.
        response_checksum_validation: `when_required` does not request the checksums of objects.
        verify: `False` accepts any certificate; a path names a file of authorities to trust.
        root_certificate: further authorities to trust, in PEM.
        proxy: the URL of a proxy for all requests.
        server_side_encryption: how the server encrypts new objects: `AES256`, `aws:kms` or `aws:kms:dsse`.
        sse_kms_key_id: the KMS key for `aws:kms` and `aws:kms:dsse`.
        sse_bucket_key_enabled: encrypt with one data key for the bucket instead of one for each object.
        checksum_algorithm: a checksum to send with every write: `CRC32C`, `CRC32`, `SHA1`, `SHA256`, or `CRC64NVME`
            (package `awscrt`).
        role_arn: the role that a web identity assumes.
        role_session_name: the name of the session of that role.
        web_identity_token_file: the file with the token of the web identity.
        sts_endpoint: the URL of the token service (STS) that exchanges the web identity.
        container_credentials_relative_uri: the path of a container's credentials at the address that ECS uses.
        container_credentials_full_uri: the URL of a container's credentials.
        container_authorization_token_file: the file with the token for that URL.
        metadata_endpoint: the URL of the instance metadata service.
        imdsv1_fallback: use version 1 of that service if version 2 does not respond.
        max_connections: open connections for each event loop; 1024 by default.
        idle_timeout: time without progress after which a request fails; 20 s by default.
        connect_timeout: time to open a connection; 20 s by default.
    """

    anon: bool | None = option("flag", obstore=("skip_signature",))
    key: str | None = option(
        shown=False, fsspec=("key", "username", "client_kwargs.aws_access_key_id"), obstore=("access_key_id",)
    )
    secret: str | None = option(
        shown=False,
        fsspec=("secret", "password", "client_kwargs.aws_secret_access_key"),
        obstore=("secret_access_key",),
    )
    token: str | None = option(
        shown=False, fsspec=("token", "client_kwargs.aws_session_token"), obstore=("session_token",)
    )
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
    use_fips_endpoint: bool | None = option("flag", fsspec=("config_kwargs.use_fips_endpoint",))
    use_dualstack_endpoint: bool | None = option(
        "flag", fsspec=("config_kwargs.use_dualstack_endpoint", "config_kwargs.s3.use_dualstack_endpoint")
    )
    request_checksum_calculation: str | None = option(fsspec=("config_kwargs.request_checksum_calculation",))
    response_checksum_validation: str | None = option(fsspec=("config_kwargs.response_checksum_validation",))
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
    foreign_endpoint: bool | None = option("flag", shown=False, ours_only=True)

    @property
    def chain(self) -> dict[str, str | bool]:
        """The given options of where credentials are searched."""
        return {name: value for name in _CHAIN if (value := getattr(self, name)) is not None}


S3_TABLE = OptionTable(
    store="an S3 store",
    options=(
        *options_of(S3Options),
        Option("allow_invalid_certificates", "flag", ours_only=True, about="same as `verify=False`"),
        Option("proxies", "mapping", fsspec=("config_kwargs.proxies",), about="proxies, by the scheme of the endpoint"),
        Option("signature_version", "any", fsspec=("config_kwargs.signature_version",), about="`s3v4`, or `UNSIGNED`"),
        Option("disable_bulk_delete", "flag", ours_only=True, about="delete keys with one request each"),
    ),
    nested=("client_kwargs", "config_kwargs", "config_kwargs.s3", "s3_additional_kwargs"),
    without_effect=(
        "cache_regions client_kwargs.retries config_kwargs.retries config_kwargs.tcp_keepalive "
        "config_kwargs.user_agent fixed_upload_size local_expiry_check max_concurrency use_ssl"
    ),
)


def s3_options(given: Mapping[str, Any]) -> S3Options:
    """Translate `storage_options` of an S3 store.

    Options may also be in `client_kwargs` and `config_kwargs` of s3fs. An option that is None counts as not given.

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
        raise ValueError(
            "customer-provided keys ('sse-c') are not supported, because every read would have to send them"
        )
    return options


def _check_credentials(options: S3Options) -> None:
    if options.key == "" or options.secret == "":
        raise ValueError("the storage options 'key' and 'secret' are empty")
    if (options.key is None) != (options.secret is None):
        raise ValueError("the storage options 'key' and 'secret' must be set together")
    if options.token is not None and options.key is None:
        raise ValueError("the storage option 'token' needs 'key' and 'secret'")
    if options.anon and (options.key is not None or options.profile is not None):
        raise ValueError("the storage option 'anon' cannot be combined with credentials")
    if options.profile is not None and options.key is not None:
        raise ValueError("the storage options 'profile' and 'key' cannot be combined")


def _merge_signature(found: dict[str, Any]) -> None:
    version = found.pop("signature_version", "s3v4")
    if type(version).__name__ == "UNSIGNED":  # botocore's marker, without importing botocore
        if found.setdefault("anon", True) is not True:
            raise ValueError("the storage options 'anon' and 'signature_version' contradict each other")
    elif not isinstance(version, str) or version not in ("s3v4", "v4"):
        raise ValueError("requests are signed with version 4 ('s3v4') or not at all (anon=True)")


def _merge_trust(found: dict[str, Any]) -> None:
    verify, certificate = found.get("verify"), found.get("root_certificate")
    if isinstance(verify, os.PathLike):
        verify = found["verify"] = os.fspath(verify)
    if verify is not None and not isinstance(verify, (bool, str)):
        raise TypeError("the storage option 'verify' must be a bool or the path of a file")
    if isinstance(certificate, bytes):
        found["root_certificate"] = certificate.decode("ascii")
    elif certificate is not None and not isinstance(certificate, str):
        raise TypeError("the storage option 'root_certificate' must be str or bytes")
    if found.pop("allow_invalid_certificates", False) and found.setdefault("verify", False) is not False:
        raise ValueError("the storage options 'verify' and 'allow_invalid_certificates' contradict each other")


def _merge_proxy(found: dict[str, Any]) -> None:
    proxies = found.pop("proxies", None)
    if not proxies:
        return
    scheme = urlsplit(found.get("endpoint_url") or "https://").scheme
    proxy = proxies.get(scheme)
    if proxy is not None and not isinstance(proxy, str):
        raise TypeError("the storage option 'proxies' must map schemes to proxy URLs")
    if proxy is not None and found.setdefault("proxy", proxy) != proxy:
        raise ValueError("the storage options 'proxy' and 'proxies' contradict each other")


Source = Literal["anonymous", "given", "environment", "profile", "chain"]
"""The source of credentials: none, options, environment, a profile, or the search of the client library."""


Configured = Mapping[str, str]
"""The values of one profile in the configuration files of the AWS tools. `s3.addressing_style` is a value of the
section `s3`, and `endpoint_url` is the endpoint of S3."""

NOTHING_CONFIGURED: Configured = {}


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


_ARN = re.compile(
    r"arn:(aws[a-z-]*):(s3[a-z-]*):([a-z0-9-]*):(\d{12}):(accesspoint[/:]([a-z0-9][a-z0-9-]{1,48}[a-z0-9]))?"
)


def parse_url(url: str) -> tuple[str, str]:
    """Return bucket and root (a prefix ending with `/`, or `""`) of an `s3://bucket/root` URL.

    The path is not percent-encoded, as in fsspec and the AWS tools. An access point's ARN may replace the bucket.

    Raises:
        ValueError: it is not such a URL.
        InvalidKeyError: the root is not a valid key.
    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("s3", "s3a") or not separator:
        raise ValueError("the URL of an S3 store must have the form s3://bucket/path")
    if rest.startswith("arn:"):
        bucket, root = _split_arn(rest)
    else:
        bucket, _, root = rest.partition("/")
        if "@" in unquote(bucket):
            raise ValueError("the URL of a bucket must not contain credentials; use the options 'key' and 'secret'")
        if not bucket.strip(".") or not bucket.isascii() or not all(c.isalnum() or c in ".-_" for c in bucket):
            raise ValueError(f"not a bucket name: {bucket!r}")
        if bucket.endswith(("--x-s3", "--xa-s3", "--op-s3")):
            raise ValueError("directory buckets (S3 Express One Zone) and Outposts are not supported")
    root = root.removesuffix("/")
    return bucket, f"{check_key(root)}/" if root else ""


def _split_arn(text: str) -> tuple[str, str]:
    found = _ARN.match(text)
    if found is None or found[2] != "s3" or not found[3] or not found[6]:
        raise ValueError(
            "an ARN instead of a bucket must name an access point of one region: "
            "s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/path"
        )
    bucket, rest = text[: found.end()], text[found.end() :]
    if rest and not rest.startswith("/"):
        raise ValueError("the name of an access point cannot contain '/'")
    return bucket.replace(":accesspoint:", ":accesspoint/"), rest[1:]


def find_endpoint(
    bucket: str,
    options: S3Options,
    environ: Mapping[str, str],
    region: str | None = None,
    configured: Configured = NOTHING_CONFIGURED,
) -> S3Endpoint:
    """Return the endpoint of `bucket`.

    Args:
        bucket: a bucket's name, or the ARN of an access point.
        options: the given options.
        environ: the environment.
        region: the region in a response of the server, which overrides all others.
        configured: the values of the configuration files of the AWS tools.

    Raises:
        ValueError: the endpoint or the region is not valid, or the bucket cannot be where an option puts it.
    """
    endpoint = find_endpoint_url(options, environ, configured)
    if endpoint is not None and "://" not in endpoint:
        raise ValueError("the URL of an endpoint must begin with http:// or https://")
    server = None if endpoint is None else WebAddress.of_endpoint(endpoint)
    # An endpoint of AWS without a path is the default one.
    of_aws = None if server is None or server.path else _AWS_HOST.fullmatch(server.host)
    is_default = server is None or of_aws is not None
    arn = _ARN.match(bucket)
    named = arn[3] if arn is not None else region or find_region(options, environ, configured)
    named = named or (of_aws and of_aws[1]) or "us-east-1"
    if is_default:
        is_fips = is_true(find_setting("use_fips_endpoint", options, environ, configured))
        plain = named.removeprefix("fips-").removesuffix("-fips")  # old names of regions
        is_fips, named = is_fips or plain != named, "us-east-1" if plain == "aws-global" else plain
        is_dual = is_true(find_setting("use_dualstack_endpoint", options, environ, configured)) or (
            options.use_dualstack_endpoint is None and is_true(configured.get("s3.use_dualstack_endpoint"))
        )
        host = _aws_host("s3" if arn is None else "s3-accesspoint", named, fips=is_fips, dual=is_dual)
        server = WebAddress.parse(f"{'https' if server is None else server.scheme}://{host}")
    assert server is not None
    name = bucket if arn is None else f"{arn[6]}-{arn[4]}"
    style, given = configured.get("s3.addressing_style"), True if arn else options.virtual_hosted
    wanted = style == "virtual" or (is_default and style != "path") if given is None else given
    virtual = wanted and _is_virtual_hosted(name, server, required=bool(given))
    if virtual:
        base = f"{server.scheme}://{name}.{server.authority}{server.path}"
    else:
        base = f"{server.shown}/{quote_key(bucket)}"
    trusted = server.host.endswith(tuple(f".{suffix}" for suffix in _SUFFIXES))
    return S3Endpoint(bucket, base, named, trusted, virtual, fixed=arn is not None or not is_default)


def _is_virtual_hosted(name: str, server: WebAddress, *, required: bool) -> bool:
    """Return whether a bucket or access point can be a part of the host's name; otherwise it is a part of the path.

    In a host's name upper and lower case are the same, so that `MyData` would be another bucket, and only letters,
    digits and hyphens are valid ("Bucket naming rules" and "Virtual hosting" in the S3 documentation). A host that ends
    with a number is an IPv4 address. Usually no certificate is valid for a name with dots.

    Args:
        name: the bucket's name, or that of an access point with its account.
        server: the server.
        required: whether an option requires it.

    Raises:
        ValueError: it is required and not possible.
    """
    is_address = ":" in server.host or _NUMBER.fullmatch(server.host.rstrip(".").rpartition(".")[2]) is not None
    if not is_address and _HOSTED.fullmatch(name) and (required or "." not in name or not server.secure):
        return True
    if required and is_address:
        raise ValueError(
            "'virtual_hosted' cannot put the bucket into the host name, because the host is an IP address; use "
            "the name of the server, or omit the option"
        )
    if required:
        raise ValueError(f"the bucket name {name!r} cannot be part of a host name; set virtual_hosted=False")
    return False


_LABEL = r"(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOSTED = re.compile(rf"(?=.{{3}})(?!\d+(?:\.\d+){{3}}\Z){_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)

_REGION = re.compile(r"[a-z0-9-]{1,40}")
_PARTITIONS = {"": "amazonaws.com", "cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu", "us-iso-": "c2s.ic.gov"}
_PARTITIONS |= {"us-isob-": "sc2s.sgov.gov", "eu-isoe-": "cloud.adc-e.uk", "us-isof-": "csp.hci.ic.gov"}
"""The domains of AWS by the beginning of its regions: one of each partition, as botocore's `partitions.json` has it."""

_SUFFIXES = tuple(_PARTITIONS.values())
_REGION_IN_HOST = rf"([a-z]{{2,4}}(?:-[a-z]+)+-\d+)\.(?:{'|'.join(map(re.escape, reversed(_SUFFIXES)))})"
_AWS_HOST = re.compile(rf"s3(?:[.-]{_REGION_IN_HOST}|\.(?:{'|'.join(map(re.escape, _SUFFIXES))}))")
REGIONAL_HOST = re.compile(rf"(?:^|[./])s3(?:-fips)?(?:\.dualstack)?[.-]{_REGION_IN_HOST}")
"""Matches the host of AWS in a URL, and its region."""


def _aws_host(service: str, region: str, *, fips: bool, dual: bool) -> str:
    """Return the host of AWS for a service in a region, with FIPS and dual stack ("Amazon S3 endpoints and quotas").

    Raises:
        ValueError: it is not a region, or has no such host.
    """
    if not _REGION.fullmatch(region):  # it becomes a part of the host
        raise ValueError(f"not an AWS region: {region!r}")
    if fips and region.startswith("cn-"):
        raise ValueError(f"AWS has no FIPS endpoints in the region {region!r}: set 'use_fips_endpoint' to False")
    suffix = next(suffix for start, suffix in reversed(_PARTITIONS.items()) if region.startswith(start))
    return f"{service}{'-fips' if fips else ''}.{'dualstack.' if dual else ''}{region}.{suffix}"


def find_setting(name: str, options: S3Options, environ: Mapping[str, str], configured: Configured) -> str | None:
    """Return a setting of the AWS tools: from the options, the environment (`AWS_` before its name) or the files."""
    given = getattr(options, name, None)
    return str(given) if given is not None else environ.get(f"AWS_{name.upper()}") or configured.get(name) or None


def is_true(text: str | None) -> bool:
    """Return whether a setting of the AWS tools is true; they know no other word."""
    return text is not None and text.lower() == "true"


def find_endpoint_url(
    options: S3Options, environ: Mapping[str, str], configured: Configured = NOTHING_CONFIGURED
) -> str | None:
    """Return the endpoint's URL, from the options, the environment or the configuration files; None: AWS."""
    if options.endpoint_url is not None:
        return options.endpoint_url
    if is_true(find_setting("ignore_configured_endpoint_urls", options, environ, configured)):
        return None
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        if environ.get(name):
            return environ[name]
    return configured.get("endpoint_url") or None


def find_region(
    options: S3Options, environ: Mapping[str, str], configured: Configured = NOTHING_CONFIGURED
) -> str | None:
    """Return the region that the options, the environment or the files name. boto3 does not know `AWS_REGION`."""
    region = options.region or environ.get("AWS_DEFAULT_REGION") or configured.get("region")
    return region or environ.get("AWS_REGION") or None


def find_profile(options: S3Options, environ: Mapping[str, str]) -> str | None:
    """Return the name of the profile that the options or the environment name."""
    return options.profile or environ.get("AWS_DEFAULT_PROFILE") or environ.get("AWS_PROFILE") or None


def is_foreign(options: S3Options, environ: Mapping[str, str], configured: Configured) -> bool:
    """Return whether the endpoint is somebody else's, who must not get credentials that were found."""
    if not options.foreign_endpoint or options.endpoint_url is None:
        return False
    server = WebAddress.of_endpoint(options.endpoint_url)
    own = find_endpoint_url(replace(options, endpoint_url=None), environ, configured)
    is_own = own is not None and WebAddress.of_endpoint(own).origin == server.origin
    return not is_own and not (server.secure and _AWS_HOST.fullmatch(server.host))


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
    if find_profile(options, environ) is not None or has_files:
        return "profile"
    return "chain"
